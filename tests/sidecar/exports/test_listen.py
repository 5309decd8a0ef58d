"""Where the sidecar listens: addresses are read strictly and a refusal is one sentence."""

import socket

import pytest
from ddwatch_sidecar.exports.listen import Address, Resolved, Unusable, open_listener, parse_address, resolve, url_of


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9477", Address("127.0.0.1", 9477)),
        ("localhost", Address("localhost", 1234)),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
        ("[::1]:80", Address("::1", 80)),
        ("[::1]", Address("::1", 1234)),
        ("::1", Address("::1", 1234)),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse_address(text, 1234) == address


@pytest.mark.parametrize(
    "text", ["", ":9477", "host:", "host:x", "host:65536", "host:-1", "[::1", "[::1]9477", "a b:1", "http://x", "h:٣"]
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Unusable, match=r"is not an address to listen on; write HOST:PORT"):
        parse_address(text, 1234)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("127.9.9.9", True), ("0.0.0.0", False), ("::1", True), ("::", False)],
)
def test_loopback_is_told_from_the_rest(host: str, loopback: bool) -> None:
    assert resolve(Address(host, 0)).loopback is loopback


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(Unusable, match=r"'nowhere.invalid' to listen on is not known"):
        resolve(Address("nowhere.invalid", 0))


def test_a_port_in_use_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(Unusable, match=rf"^port {address.port} on 127.0.0.1 is in use"):
            open_listener(address, resolve(address))


def test_an_address_of_another_host_is_said_so() -> None:
    address = Address("192.0.2.1", 0)
    with pytest.raises(Unusable, match=r"^192.0.2.1 is not an address of this host$"):
        open_listener(address, Resolved(socket.AF_INET, address))


def test_port_0_gives_a_real_port_and_a_url_that_works_here() -> None:
    for host, start in (("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", "http://127.0.0.1:")):
        address = Address(host, 0)
        with open_listener(address, resolve(address)) as listener:
            assert url_of(listener) == f"{start}{listener.getsockname()[1]}"
            assert listener.getsockname()[1] > 0

"""Who may read: hostile Host headers are refused, tokens are compared whole."""

import pytest
from ddwatch_sidecar.exports.guard import Guard, host_of
from hypothesis import given
from hypothesis import strategies as st

LOCAL = "127.0.0.1"


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost", "localhost"),
        ("LocalHost:9477", "localhost"),
        ("localhost.:9477", "localhost"),
        ("127.0.0.1:9477", "127.0.0.1"),
        ("[::1]:9477", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("gpu-3.lab:80", "gpu-3.lab"),
        ("", None),
        (":9477", None),
        ("localhost:", None),
        ("localhost:94771234", None),
        ("localhost:x", None),
        ("a b", None),
        ("user@localhost", None),
        ("localhost/x", None),
        ("[::1", None),
        ("[::1]x", None),
    ],
)
def test_a_host_header_is_read_strictly(header: str, host: str | None) -> None:
    assert host_of(header) == host


@given(st.text())
def test_any_header_gives_a_host_or_none(header: str) -> None:
    host = host_of(header)

    assert host is None or (host and host == host.lower())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:9477", "LOCALHOST:9477"])
def test_loopback_names_come_in_through_any_port_forward(host: str) -> None:
    assert Guard().refusal([host], None, LOCAL) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.168.0.7",
        "0.0.0.0",
        "xlocalhost",
        "[::2]",
    ],
)
def test_a_rebound_name_stays_outside(host: str) -> None:
    refused = Guard().refusal([host], None, LOCAL)

    assert refused is not None and refused.status == 403
    assert "--allow-host" in refused.sentence and "evil" not in refused.sentence


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"], ["a b"]])
def test_a_request_without_one_good_host_is_refused(hosts: list[str]) -> None:
    refused = Guard().refusal(hosts, None, LOCAL)

    assert refused is not None and refused.status == 400


def test_the_address_that_the_reader_reached_is_a_good_host() -> None:
    guard = Guard(token="t" * 16)

    assert guard.refusal(["10.1.2.3:9477"], f"Bearer {'t' * 16}", "10.1.2.3") is None
    assert guard.refusal(["10.1.2.4:9477"], f"Bearer {'t' * 16}", "10.1.2.3") is not None


def test_an_allowed_host_comes_in() -> None:
    assert Guard(hosts=["GPU-3.lab"]).refusal(["gpu-3.lab:9477"], None, LOCAL) is None


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic right-token",
        "right-token",
        "Bearer right-token2",
        "Bearer\u00e9",
    ],
)
def test_a_wrong_token_is_refused(shown: str | None) -> None:
    refused = Guard(token="right-token").refusal(["localhost"], shown, LOCAL)

    assert refused is not None and refused.status == 401
    assert "right-token" not in refused.sentence


@pytest.mark.parametrize("shown", ["Bearer right-token", "bearer right-token", "Bearer  right-token "])
def test_the_right_token_comes_in(shown: str) -> None:
    assert Guard(token="right-token").refusal(["localhost"], shown, LOCAL) is None


def test_the_host_is_looked_at_before_the_token() -> None:
    refused = Guard(token="right-token").refusal(["evil.example"], None, LOCAL)

    assert refused is not None and refused.status == 403

"""Sockets as the kernel lists them, and the address of a server that follows from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.servers.command_line import Launch
from ddwatch.core.servers.sockets import Listener, Port, forward_passes, listeners, port_of, url_of

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000 100 0 0 10 0
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000 100 0 0 10 0
   2: 0100007F:7530 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0000 20 4 30 10 -1
   3: broken
   4: XY:ZZ 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0000 100 0 0 10 0
"""
TCP6 = """\
   0: 00000000000000000000000000000000:7531 00000000000000000000000000000000:0000 0A 0:0 00:0 0 1000 0 4714 1
   1: 0000000000000000FFFF00000100007F:7532 00000000000000000000000000000000:0000 0A 0:0 00:0 0 1000 0 4715 1
   2: 000080FE000000000000000001000000:7533 00000000000000000000000000000000:0000 0A 0:0 00:0 0 1000 0 4716 1
"""
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
0: 00000002 00000000 00010000 0001 01 501 /tmp/tmpab_12xyz.0
0: 00000002 00000000 00010000 0001 01 502 /tmp/tmpab_12xyz.1
0: 00000002 00000000 00010000 0001 01 503 /tmp/tmpinput
0: 00000003 00000000 00000000 0001 03 504 /tmp/other.0
0: 00000002 00000000 00010000 0001 01 505 /tmp/strangers.0
0: 00000002 00000000 00010000 0001 01 506 @abstract.0
0: 00000002 00000000 00010000 0001 01 507
"""
KIMI = Launch(entry="serve", host="0.0.0.0", port=31000, port_given=True)


def test_only_sockets_that_take_connections_are_read() -> None:
    assert listeners(TCP) == [
        Listener(host="127.0.0.1", port=30000, inode=4711, owner=1000),
        Listener(host="0.0.0.0", port=8080, inode=4712, owner=0),
    ]
    assert [(one.host, one.port) for one in listeners(TCP6)] == [
        ("::", 30001),
        ("127.0.0.1", 30002),
        ("fe80::1", 30003),
    ]


def test_forward_passes_are_the_ranked_sockets_of_the_engine() -> None:
    assert forward_passes(UNIX, {501, 502, 503, 504, 506, 507}) == "ipc:///tmp/tmpab_12xyz"
    assert forward_passes(UNIX, {503, 504}) is None
    assert forward_passes(UNIX, {501, 505}) is None, "two names: nobody knows which it is"
    assert forward_passes("", {1}) is None


@pytest.mark.parametrize(
    ("launch", "seen", "port"),
    [
        (KIMI, [Listener(host="0.0.0.0", port=31000)], Port(host="0.0.0.0", port=31000, listening=True)),
        (KIMI, [Listener(host="127.0.0.1", port=9)], Port(host="0.0.0.0", port=31000, listening=False)),
        (KIMI, [], Port(host="0.0.0.0", port=31000, listening=False)),
        (KIMI, None, Port(host="0.0.0.0", port=31000, listening=None)),
        (
            Launch(entry="serve"),
            [Listener(host="::1", port=30500)],
            Port(host="::1", port=30500, listening=True),
        ),
        (
            Launch(entry="serve"),
            [Listener(host="::1", port=30500), Listener(host="::1", port=30501)],
            Port(host="127.0.0.1", port=30000, listening=False),
        ),
        (None, [Listener(host="127.0.0.1", port=5)], Port(host="127.0.0.1", port=5, listening=True)),
        (None, [Listener(host="127.0.0.1", port=5), Listener(host="127.0.0.1", port=6)], None),
        (None, None, None),
    ],
)
def test_arguments_are_held_against_sockets(
    launch: Launch | None, seen: list[Listener] | None, port: Port | None
) -> None:
    assert port_of(launch, seen) == port


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("10.0.0.7", "http://10.0.0.7:80"),
        ("gpu01", "http://gpu01:80"),
        ("gpu01\x1b]0;/x?y", "http://gpu010xy:80"),
    ],
)
def test_an_address_is_one_that_this_machine_reaches(host: str, url: str) -> None:
    assert url_of(Port(host=host, port=80), tls=False) == url
    assert url_of(Port(host=host, port=80), tls=True) == url.replace("http", "https")


@given(st.text(max_size=400))
def test_no_text_is_too_strange(text: str) -> None:
    listeners(text)
    forward_passes(text, {1})


def test_no_row_is_too_strange() -> None:
    row = "0: {}:7530 0:0 0A 0 0 0 0 0 1"
    for place in ("", "0", "00", "0100007", "0100007F00", "zz", "0" * 64):
        assert listeners(row.format(place)) == [], place

"""A server as discovery hands it out, and what a reader is told of it."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.servers.cgroups import Container
from ddwatch.core.servers.command_line import Launch
from ddwatch.core.servers.found import FoundServer, Traces, command_for, describe, list_lines, none_found, words_for
from ddwatch.core.servers.grouping import Engine, Process, grouped
from ddwatch.core.servers.outlets import LogTraces, Outlet
from ddwatch.core.servers.sockets import Port

ALL = ("--log", "--sglang-url", "--fpm", "--request-metrics")
KIMI = Launch(
    entry="serve",
    arguments={
        "model_path": "Kimi-K2.6",
        "tp_size": 8,
        "speculative_algorithm": "DDTREE",
        "enable_metrics": True,
        "enable_forward_pass_metrics": True,
    },
    port=31000,
    forward_passes="ipc:///run/fpm",
)
LOGGED = LogTraces(stderr=Outlet(kind="file", path="/var/log/my sglang.log"), place="/var/log/my sglang.log")
HERE = Port(host="0.0.0.0", port=31000, listening=True)


def kimi(launch: Launch | None = KIMI, traces: Traces | None = None) -> FoundServer:
    engine = Engine(pid=4711, launch=launch, children=(4712,), titles=("scheduler_TP0",))
    return describe(engine, traces or Traces(log=LOGGED, port=HERE, version="0.5.23"))


def test_a_whole_server_is_two_lines_and_one_command() -> None:
    server = kimi()
    assert words_for(server, ALL) == [
        "--log", "/var/log/my sglang.log", "--sglang-url", "http://127.0.0.1:31000", "--fpm", "ipc:///run/fpm",
    ]  # fmt: skip
    assert command_for(server, ALL[:2]) == "ddwatch --log '/var/log/my sglang.log' --sglang-url http://127.0.0.1:31000"
    assert list_lines([server]) == [
        "  1  Kimi-K2.6   pid 4711",
        "       port  http://127.0.0.1:31000",
        "       log   /var/log/my sglang.log  (its standard error is redirected there)",
        "             SGLang 0.5.23 · DDTREE · TP8 · /metrics · forward passes",
    ]
    assert (server.metrics, server.log_requests, server.schedulers, server.notes) == (True, False, 1, ())


def test_what_was_seen_stands_before_what_was_asked_for() -> None:
    server = kimi(traces=Traces(log=LOGGED, forward_passes="ipc:///tmp/tmpabc"))
    assert server.forward_passes == "ipc:///tmp/tmpabc"
    assert server.url is None
    assert command_for(server, ["--sglang-url"]) is None


def test_forward_passes_that_are_on_and_nowhere_to_be_seen_are_said() -> None:
    launch = Launch(entry="serve", arguments={"enable_forward_pass_metrics": True})
    assert "cannot be seen from here" in " ".join(kimi(launch).notes)
    assert kimi(Launch(entry="serve", forward_passes="ipc:///x")).forward_passes is None


@pytest.mark.parametrize(
    ("asked", "endpoint"),
    [
        ("ipc:///run/fpm", "ipc:///run/fpm"),
        ("tcp://*:5557", "tcp://127.0.0.1:5557"),
        ("tcp://0.0.0.0:5557", "tcp://127.0.0.1:5557"),
        ("tcp://10.0.0.7:5557", "tcp://10.0.0.7:5557"),
        ("fpm", None),
        ("ipc://relative", None),
        (f"ipc:///{'x' * 200}", None),
    ],
)
def test_only_a_name_that_can_be_listened_to_is_handed_on(asked: str, endpoint: str | None) -> None:
    launch = Launch(entry="serve", arguments={"enable_forward_pass_metrics": True}, forward_passes=asked)
    assert kimi(launch).forward_passes == endpoint
    inside = Traces(log=LogTraces(container=Container(id="a" * 64)))
    assert kimi(launch, inside).forward_passes == (endpoint if asked.startswith("tcp") else None)


def test_an_engine_without_arguments_claims_nothing() -> None:
    server = kimi(None, Traces(log=LOGGED, port=HERE))
    assert (server.metrics, server.log_requests, server.arguments) == (None, None, {})
    assert server.name == "SGLang inside another program"
    told = kimi(None, Traces(log=LOGGED, port=HERE, arguments={"model_path": "m", "enable_metrics": True}))
    assert (told.name, told.metrics, told.log_requests) == ("m", True, False)


def test_what_is_missing_is_said_with_what_helps() -> None:
    assert (
        "nothing listens on port 31000 yet"
        in kimi(traces=Traces(port=Port(host="::", port=31000, listening=False))).notes[0]
    )
    wants = Launch(entry="serve", wants_key=True, arguments={"log_level": "warning"})
    assert any("--sglang-key-file" in note for note in kimi(wants).notes)
    assert any("--log-level info" in note for note in kimi(wants).notes)
    follower = Launch(entry="serve", http=False, arguments={"node_rank": 1})
    assert (kimi(follower).url, "on that host" in kimi(follower).notes[0]) == (None, True)
    assert "gRPC" in kimi(Launch(entry="serve", http=False)).notes[0]
    assert kimi(traces=Traces(port_problem="it is elsewhere")).notes == ("it is elsewhere",)


def test_a_list_says_how_to_get_a_log() -> None:
    nowhere = Traces(log=LogTraces(stderr=Outlet(kind="terminal"), owner="ops"), port=Port(host="::", port=5))
    lines = list_lines([kimi(), kimi(Launch(entry="serve", arguments={"model_path": "a" * 99}), nowhere)])
    assert lines[4:] == [
        f"  2  {'a' * 40}   pid 4711, user ops",
        "       port  http://[::1]:5 (not verified)",
        "       log   none: its output goes to a terminal and is kept nowhere",
        "             → start it with 2>&1 | tee -a sglang.log",
    ]


def test_nothing_found_says_what_was_looked_for() -> None:
    text = none_found(87, (), hidden=False)
    assert "none of the 87 processes here is an SGLang server (python -m sglang.launch_server" in text
    assert "hidepid" not in text
    assert "hidepid" in none_found(3, (), hidden=True)
    assert "pid 5, 6 are left over" in none_found(3, (5, 6), hidden=False)
    assert "pid 5 is left over" in none_found(3, (5,), hidden=False)
    assert "pid 1, 2, 3, 4 … are left over" in none_found(3, (1, 2, 3, 4, 5), hidden=False)


@given(
    st.lists(
        st.text(max_size=10) | st.sampled_from(["--port", "--api-key", "--served-model-name", "serve"]), max_size=8
    ),
    st.none()
    | st.builds(Port, host=st.text(max_size=8), port=st.integers(1, 65535), listening=st.none() | st.booleans()),
    st.none() | st.text(max_size=20),
)
def test_whatever_runs_can_be_shown_and_typed(words: list[str], port: Port | None, place: str | None) -> None:
    process = Process(pid=5, words=("sglang", "serve", "m", *words, "--admin-api-key", "sk-very-secret"))
    log = LogTraces(stderr=Outlet(kind="file", path="/x"), place=place)
    for engine in grouped([process]).engines:
        server = describe(engine, Traces(log=log, port=port))
        command = command_for(server, ALL)
        assert command is None or shlex.split(command)[1:] == words_for(server, ALL)
        assert "sk-very-secret" not in f"{list_lines([server])}{server}"

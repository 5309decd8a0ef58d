"""A glance at a log in a journal, in a container, or behind a command: what it finds, and what would help."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ddwatch.core.log_place import read_place
from ddwatch.core.records import DecodeBatch
from ddwatch.probes.log_glance import glanced, log_glance
from ddwatch.probes.surroundings import Host, Ran, Sight

DECODE = (
    "[2026-05-01 12:00:0{second} TP0] Decode batch, #running-req: 1, #token: 5000, token usage: 0.01, "
    "accept len: 2.90, accept rate: 0.06, cuda graph: True, gen throughput (token/s): 32.20, #queue-req: 0\n"
)
LOG = "".join(DECODE.format(second=second) for second in range(5))


def looked(
    text: str, answer: Ran, *programs: str, asked: "list[Sequence[str]] | None" = None
) -> tuple[Sight, list[object]]:
    def run(words: Sequence[str]) -> Ran:
        if asked is not None:
            asked.append(list(words))
        return answer

    host = Host(which=lambda name: name if name in programs else None, environment={"USER": "ops"})
    sight, records = log_glance(read_place(text), host, run=run)
    return sight, list(records)


@pytest.mark.parametrize(
    ("text", "answer", "programs", "words"),
    [
        (
            "journal:sglang",
            Ran(0, LOG),
            ("journalctl",),
            ["journalctl", "--output=cat", "--no-pager", "--lines=2000", "--unit=sglang"],
        ),
        ("docker:kimi", Ran(0, "", LOG), ("docker",), ["docker", "logs", "--tail", "2000", "kimi"]),
        ("docker:kimi", Ran(0, LOG), ("podman",), ["podman", "logs", "--tail", "2000", "kimi"]),
        ("command:ssh gpu 'tail -F x'", Ran(None, LOG), (), ["ssh", "gpu", "tail -F x"]),
    ],
)
def test_decode_lines_are_seen(text: str, answer: Ran, programs: tuple[str, ...], words: list[str]) -> None:
    asked: list[Sequence[str]] = []
    sight, records = looked(text, answer, *programs, asked=asked)
    assert asked == [words]
    assert (sight.name, sight.state, sight.detail) == ("log", "seen", "5 decode lines at its end")
    assert sight.source == read_place(text).label
    assert sum(isinstance(record, DecodeBatch) for record in records) == 5


@pytest.mark.parametrize(
    ("text", "answer", "programs", "detail", "command"),
    [
        ("journal:x", Ran(0, ""), (), "there is no journalctl here: name a file or a container", "ddwatch --log PATH"),
        (
            "journal:x",
            Ran(0, "-- No entries --\n"),
            ("journalctl",),
            "the journal holds no line of x",
            "systemctl status x",
        ),
        ("journal:user/x", Ran(0, ""), ("journalctl",), "the journal holds no line of x", "systemctl --user status x"),
        (
            "journal:x",
            Ran(1, "", "No journal files were opened due to insufficient permissions."),
            ("journalctl",),
            "this user may not read the journal",
            "sudo usermod -aG systemd-journal ops",
        ),
        ("docker:x", Ran(0, ""), (), "there is neither docker nor podman here", "ddwatch --log PATH"),
        ("docker:x", Ran(0, ""), ("docker",), "container x has written nothing", "docker ps -a"),
        (
            "docker:x",
            Ran(1, "", "Error response from daemon: No such container: x"),
            ("docker",),
            "there is no container x",
            "docker ps -a",
        ),
        (
            "docker:x",
            Ran(1, "", "permission denied while trying to connect to the Docker daemon socket"),
            ("docker",),
            "this user may not use docker",
            "sudo usermod -aG docker ops",
        ),
        (
            "docker:x",
            Ran(1, "", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock."),
            ("docker",),
            "docker does not show it: is its daemon up?",
            "systemctl status docker",
        ),
        ("docker:x", Ran(None, ""), ("docker",), "docker does not answer", "systemctl status docker"),
        ("command:x y", Ran(3, "", "gone"), (), "x prints nothing and ends with exit code 3", None),
        ("command:x y", Ran(None, ""), (), "x prints nothing", None),
    ],
)
def test_what_is_missing_is_one_sentence_with_what_helps(
    text: str, answer: Ran, programs: tuple[str, ...], detail: str, command: str | None
) -> None:
    sight, records = looked(text, answer, *programs)
    assert (sight.state, sight.detail, sight.command) == ("unseen", detail, command)
    assert records == []


def test_a_file_is_looked_at_as_before_and_standard_input_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG, encoding="utf-8")
    assert looked(str(tmp_path / "log"), Ran(None, ""))[0].detail == "5 decode lines in its last MiB"
    assert looked("-", Ran(None, ""))[0].state == "partly"


def test_a_glance_ends_with_the_command_or_without_it(needs_command: Callable[[str], Path]) -> None:
    needs_command("sh")
    assert glanced(["sh", "-c", "echo out; echo err >&2; exit 3"]) == Ran(3, "out\n", "err\n")
    going_on = glanced(["sh", "-c", "echo first; exec sleep 60"])
    assert (going_on.code, going_on.out) == (None, "first\n")
    assert glanced(["no-such-program"]) == Ran(None, "", "No such file or directory")


def test_a_glance_is_bounded(needs_command: Callable[[str], Path]) -> None:
    assert len(glanced([sys.executable, "-c", "while True: print('x' * 1000)"]).out) == 1024 * 1024


def test_a_command_is_handed_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDWATCH_TOKEN", "a-secret-of-good-length")
    assert "DDWATCH" not in glanced(["env"]).out

"""What a host lets ddwatch see, on hosts that are handed in."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ddwatch.probes.surroundings import Host, Ran


def host(tmp_path: Path, *, commands: dict[str, Ran], user: str = "ops") -> Host:
    def run(words: Sequence[str]) -> Ran:
        return commands[words[0]]

    return Host(
        which=lambda name: f"/usr/bin/{name}" if name in commands else None,
        run=run,
        environment={"USER": user},
        kmsg=tmp_path / "kmsg",
        docker_socket=tmp_path / "docker.sock",
    )


def test_a_bare_host_has_nothing_and_says_absent(tmp_path: Path) -> None:
    bare = host(tmp_path, commands={})
    states = [sight.state for sight in (bare.journal(), bare.containers(), bare.gpus(), bare.kernel_log())]
    assert states == ["absent"] * 4


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Ran(0, "some line\n"), "seen"),
        (Ran(0, "", "Hint: You are currently not seeing messages from other users and the system."), "unseen"),
        (Ran(1, "", "No journal files were opened due to insufficient permissions."), "unseen"),
        (Ran(None, ""), "unseen"),
    ],
)
def test_the_journal_needs_a_group(tmp_path: Path, answer: Ran, state: str) -> None:
    sight = host(tmp_path, commands={"journalctl": answer}).journal()
    assert sight.state == state
    if state == "unseen":
        assert sight.command == "sudo usermod -aG systemd-journal ops"


def test_gpus_are_counted_by_kind(tmp_path: Path) -> None:
    names = "RTX PRO 6000\n" * 8
    assert host(tmp_path, commands={"nvidia-smi": Ran(0, names)}).gpus().detail == "8 x RTX PRO 6000"
    assert host(tmp_path, commands={"nvidia-smi": Ran(None, "")}).gpus().state == "unseen"


def test_docker_needs_its_socket(tmp_path: Path) -> None:
    found = host(tmp_path, commands={"docker": Ran(0, "")})
    assert found.containers().state == "unseen"
    (tmp_path / "docker.sock").write_text("", encoding="utf-8")
    assert found.containers().state == "seen"


def test_a_readable_kernel_log_is_seen(tmp_path: Path) -> None:
    (tmp_path / "kmsg").write_text("", encoding="utf-8")
    assert host(tmp_path, commands={}).kernel_log().state == "seen"


def test_logs_of_all_sorts(tmp_path: Path) -> None:
    found = host(tmp_path, commands={})
    log = tmp_path / "sglang.log"
    assert found.log(log)[0].state == "unseen"
    log.write_text("something else\n" * 500, encoding="utf-8")
    sight, records = found.log(log)
    assert (sight.state, sight.command, records) == ("unseen", "--log-level info", [])
    log.write_text(
        "[2026-05-01 12:00:00 TP0] Decode batch, #running-req: 1, #token: 5989, token usage: 0.01, accept len: 2.90, "
        "gen throughput (token/s): 32.20, #queue-req: 0\n",
        encoding="utf-8",
    )
    sight, records = found.log(log)
    assert sight.state == "seen"
    assert len(records) == 1
    assert found.log(tmp_path)[0].state == "unseen"

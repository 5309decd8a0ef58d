"""What this user may see of other processes, and how the rest is named."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from ddwatch.discovery.find import find
from ddwatch.discovery.machine import Machine
from tests.fakes.standing_in import proc_of, standing_in

NOBODY = 65534


def closed(proc: Path, pid: int) -> None:
    """Takes from a /proc what the kernel shows to the owner of a process only."""
    for name in ("fd", "cwd", "ns", "environ", "root", "fdinfo"):
        (proc / str(pid) / name).unlink(missing_ok=True)


def test_a_process_that_may_not_be_looked_into_is_listed_with_what_is_known(tmp_path: Path) -> None:
    with standing_in("--model-path", "m") as server:
        groups = dict.fromkeys(server.family(), "0::/system.slice/sglang.service\n")
        proc = proc_of(tmp_path / "proc", *server.family(), groups=groups)
        for pid in server.family():
            closed(proc, pid)
        (one,) = find(Machine(proc), asking=lambda url: None).servers
    assert (one.pid, one.name, one.url) == (server.pid, "m", server.url)
    assert one.listening is True, "a socket of the same user on the stated port is no secret"
    assert one.log.source == "journal:sglang.service"
    assert "most likely" in one.log.detail
    assert one.notes == (), "nothing is missing"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Another user for a while; root only."""
    before, groups = os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(before)
        os.setgroups(groups)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_server_is_listed_with_the_permission_that_is_missing() -> None:
    with standing_in("--model-path", "m") as server, TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        machine = Machine(proc_of(Path(name) / "proc", *server.family()))
        (before,) = find(machine).servers
        with as_nobody():
            (one,) = find(machine).servers
    assert (before.owner, one.owner) == (None, "root")
    assert one.notes == ("it runs as root: only root may see its sockets and its output",)
    assert (one.url, one.listening, one.log.source) == (server.url, True, None)
    assert one.log.detail == "where it writes may be seen by root only"
    assert one.log.fix == "sudo ddwatch, or ddwatch --log PATH"


def test_the_proc_of_another_place_is_used_for_discovery_alone(tmp_path: Path) -> None:
    assert Machine(tmp_path).processes() == []
    assert psutil.Process().ppid() == os.getppid()


def test_a_host_that_hides_processes_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    mounts = tmp_path / "self" / "mounts"
    hides = Machine(tmp_path).hides_others
    for options, hidden in (
        ("rw,hidepid=2", True),
        ("rw,hidepid=invisible", True),
        ("rw,hidepid=noaccess", True),
        ("rw,hidepid=0", False),
        ("rw", False),
    ):
        mounts.write_text(f"sysfs /sys sysfs rw 0 0\nproc /proc proc {options} 0 0\n", encoding="utf-8")
        assert hides() is (hidden and os.geteuid() != 0), options


def test_a_process_that_is_not_there_gives_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.stream(5, 2).link is None
    assert machine.inodes(5) is None
    assert machine.listening(5) is None
    assert machine.listening_beside(5) == []
    assert machine.settings(5, "/nonexistent\0") == ""
    assert machine.folder(5, "x") is None
    assert machine.folder(5, "/nonexistent") is None
    assert machine.reached(5, 2, "/nonexistent") is None
    assert machine.reached(5, 2, "/nonexistent", deleted=True) is None
    assert machine.is_journal(5, 2) is None
    assert machine.shares_network(5) is None
    assert machine.written(5) == []
    assert machine.reader_of("pipe:[1]", frozenset()) is None
    assert machine.forward_passes((5,)) is None
    assert machine.owner(5) is None
    assert machine.group(5) == ""
    assert not machine.exists(5)

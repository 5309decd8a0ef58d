"""Xid faults from the kernel log: from /dev/kmsg, else from the journal, else a sentence that says what is missing."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ddwatch_sidecar.sources.kernel_log import PAST_SECONDS, RETRY_SECONDS, KernelLog, Reading

from ddwatch.core.records import SourceFault, SourceUp, Xid
from tests.fakes.clock import START, Clock

UPTIME = 10_000.0


class Booted(Clock):
    """A machine that has been up for a while."""

    def monotonic(self) -> float:
        return UPTIME + super().monotonic()


@pytest.fixture
def log() -> Iterator[Callable[..., KernelLog]]:
    made: list[KernelLog] = []

    def make(**options: Any) -> KernelLog:
        made.append(KernelLog(**options))
        return made[-1]

    yield make
    for one in made:
        asyncio.run(one.close())


def poll(log: KernelLog, now: float = START) -> list[Reading]:
    return asyncio.run(log.poll(now))


def xids(records: list[Reading]) -> list[tuple[float, int | None, str | None]]:
    return [(record.at, record.code, record.pci_bus) for record in records if isinstance(record, Xid)]


def kmsg(age: float, text: str, number: int = 1) -> str:
    return f"4,{number},{int((UPTIME - age) * 1e6)},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:41:00.0\n"


FAULT = "NVRM: Xid (PCI:0000:41:00): 79, pid=123, name=sglang::schedul, GPU has fallen off the bus."


def test_faults_are_read_from_kmsg_with_their_time(log: Callable[..., KernelLog], tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(kmsg(5000, FAULT) + kmsg(30, "usb 1-1: new device") + kmsg(20, FAULT))
    source = log(kmsg=path, monotonic=Booted().monotonic)
    records = poll(source)

    ((at, code, bus),) = xids(records)
    assert (code, bus) == (79, "0000:41:00") and at == pytest.approx(START - 20, abs=1)
    assert isinstance(records[0], SourceUp)
    assert PAST_SECONDS < 5000


def test_what_comes_later_is_read_once(log: Callable[..., KernelLog], tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    clock = Booted()
    source = log(kmsg=path, monotonic=clock.monotonic)
    assert xids(poll(source)) == []
    with path.open("wb", buffering=0) as kernel:
        kernel.write(kmsg(0, FAULT.replace("79", "48")).encode())
        assert [code for _, code, _ in xids(poll(source))] == [48]
        assert xids(poll(source)) == []
        kernel.write(b"\xff\x00 no record;NVRM: Xid\n" + kmsg(0, "NVRM: loading NVIDIA UNIX x86_64").encode())
        assert xids(poll(source)) == []


def journal(*entries: dict[str, Any], stderr: str = "", code: int | None = None) -> tuple[str, ...]:
    """A command that prints entries as journalctl does, and stays."""
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    stay = f"sys.exit({code})" if code is not None else "time.sleep(60)"
    text = f"import sys, time; sys.stdout.write({lines!r}); sys.stdout.flush(); sys.stderr.write({stderr!r}); {stay}"
    return (sys.executable, "-c", text)


def entry(age: float, message: Any) -> dict[str, Any]:
    return {"MESSAGE": message, "__REALTIME_TIMESTAMP": str(int((START - age) * 1e6)), "_TRANSPORT": "kernel"}


def polled(source: KernelLog, holds: Callable[[list[Reading]], bool]) -> list[Reading]:
    records: list[Reading] = []
    deadline = time.monotonic() + 20
    while not holds(records):
        assert time.monotonic() < deadline, records
        records += poll(source)
        time.sleep(0.02)
    return records


def test_where_kmsg_may_not_be_read_the_journal_tells(log: Callable[..., KernelLog], tmp_path: Path) -> None:
    command = journal(
        entry(900, FAULT),
        entry(5, FAULT),
        entry(4, None),
        entry(3, list(b"NVRM: Xid (PCI:0000:b3:00): 31, pid=1, \xff")),
        {"MESSAGE": FAULT},
    )
    source = log(kmsg=tmp_path / "none", journal=command)
    records = polled(source, lambda found: len(xids(found)) >= 2)

    assert [(code, bus) for _, code, bus in xids(records)] == [(79, "0000:41:00"), (31, "0000:b3:00")]
    assert xids(records)[0][0] == pytest.approx(START - 5, abs=0.01)


@pytest.mark.parametrize(
    "command",
    [
        journal(stderr="Hint: You are currently not seeing messages from other users and the system."),
        journal(stderr="No journal files were opened due to insufficient permissions."),
        journal(code=1),
    ],
)
def test_without_permission_it_says_what_helps(
    log: Callable[..., KernelLog], tmp_path: Path, command: tuple[str, ...]
) -> None:
    source = log(kmsg=tmp_path / "none", journal=command)
    records = polled(source, lambda found: any(isinstance(record, SourceFault) for record in found))
    (fault,) = [record for record in records if isinstance(record, SourceFault)]

    assert fault.waiting and "systemd-journal" in fault.reason and "NVML" in fault.reason


def test_where_there_is_neither_it_says_so_once_and_tries_again(log: Callable[..., KernelLog], tmp_path: Path) -> None:
    clock = Booted()
    source = log(kmsg=tmp_path / "kmsg", journal=(str(tmp_path / "nothing"),), monotonic=clock.monotonic)
    (fault,) = poll(source)
    assert isinstance(fault, SourceFault) and "there is no journal here" in fault.reason
    clock.advance(RETRY_SECONDS)
    assert poll(source) == []
    (tmp_path / "kmsg").write_text(kmsg(1, FAULT))
    clock.advance(RETRY_SECONDS)

    assert [type(record) for record in poll(source)] == [SourceUp, Xid]

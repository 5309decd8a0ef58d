"""The demo's GPUs, end to end: real sidecar, real NVML child, real pynvml on the stand-in of the driver's library.

Each story ends in the verdict that it says, with the card named; the healthy one stays silent.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ddwatch.commands import demo
from ddwatch.commands.sidecar_child import SidecarChild
from ddwatch.core import wire
from ddwatch.core.exits import Exit
from ddwatch.core.hardware_view import GpuView
from ddwatch.core.snapshot import Event, Snapshot
from ddwatch.demo.gpus.cards import COUNT, NAME
from ddwatch.demo.scenarios import SCENARIOS
from tests.commands.documents import held_against

PATIENCE = 100.0
"""Seconds of real time: a slow machine needs most of them to start three processes."""
NAMED = {
    "throttle": "GPU 5 is slowed down by its hardware because it is too hot (",
    "pcie": "GPU 3 has its PCIe link at Gen2 x16, the others at Gen5 x16",
    "straggler": "GPU 2 runs its SMs at 18",
    "gpu-lost": "Xid 79 on GPU 5: the card has fallen off the bus",
}
"""What the verdict's cause begins with, by story."""


@pytest.fixture(autouse=True)
def cards(needs_command: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs_command("gcc")
    monkeypatch.setenv("DDWATCH_NVML", "yes")
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def words(*given: str) -> argparse.Namespace:
    """Arguments as the command line gives them."""
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    return parser.parse_args(given)


class Watched:
    """A demo on its stage, seen through its sidecar."""

    def __init__(self, child: SidecarChild) -> None:
        self._client = httpx.Client(base_url=child.url, trust_env=False, timeout=30)
        self.newest = self.look()

    def look(self) -> Snapshot:
        """The newest snapshot."""
        self.newest = wire.decode_snapshot(self._client.get("/v1/snapshot").content)
        return self.newest

    def until(self, holds: Callable[[Snapshot], object]) -> Snapshot:
        """Looks until a condition holds; fails with the last verdict when it takes too long."""
        deadline = time.monotonic() + PATIENCE
        while not holds(self.look()):
            assert time.monotonic() < deadline, (self.newest.verdict, [view.findings for view in self.newest.gpus])
            time.sleep(0.1)
        return self.newest

    def events(self) -> list[Event]:
        """What stands on the timeline."""
        return list(wire.decode_history(self._client.get("/v1/history").content)[0].events)

    def close(self) -> None:
        self._client.close()


@contextmanager
def watched(*given: str) -> Iterator[Watched]:
    """A story, live, and gone afterwards."""
    with demo.stage(words(*given)) as child:
        seen = Watched(child)
        try:
            yield seen
        finally:
            seen.close()


def test_the_cards_are_those_of_the_founding_host_and_work_with_the_service() -> None:
    with watched("--scenario", "steady") as it:
        shown = it.until(lambda snapshot: len(snapshot.gpus) == COUNT and all(view.loaded for view in snapshot.gpus))

    assert shown.simulated
    assert (shown.server.gpu_name, shown.server.gpu_count) == (NAME, COUNT)
    assert {(view.card.pcie_generation, view.card.performance_state) for view in shown.gpus} == {(5, 0)}
    assert all((view.card.sm_clock_hertz or 0) > 2.3e9 for view in shown.gpus)
    # Host and kernel log of this machine are no part of the simulation.
    states = {source.name: source.state for source in shown.sources}
    assert (states["log"], states["loads"], states["nvml"]) == ("up", "up", "up")
    assert not {"host", "kernel log"} & states.keys()
    assert shown.host is None


@pytest.mark.parametrize("name", [story.name for story in SCENARIOS if story.pages is not None])
def test_each_story_ends_in_its_verdict_with_the_card_named(name: str) -> None:
    ends = next(story.pages for story in SCENARIOS if story.name == name)

    def named(snapshot: Snapshot) -> bool:
        cause = snapshot.verdict.cause
        return snapshot.verdict.name == ends and cause is not None and cause.startswith(NAMED[name])

    with watched("--scenario", name, "--speed", "3") as it:
        verdict = it.until(named).verdict
        events = [event.text for event in it.events() if event.kind in ("gpu", "xid")]

    assert verdict.severity == "page"
    assert verdict.next_steps
    assert events, "it stands on the timeline too"
    assert not [event for event in events if "GPU" in event and NAMED[name].split("GPU ")[1][0] not in event]


def resting(view: GpuView) -> bool:
    return view.card.pcie_generation == 1 and view.card.performance_state == 8


def test_a_power_cap_on_a_healthy_card_and_links_at_rest_accuse_nobody() -> None:
    capped = "GPU 1 runs at its power limit"
    with watched("--scenario", "power-cap", "--speed", "4") as it:
        it.until(lambda snapshot: any(item.sentence.startswith(capped) for v in snapshot.gpus for item in v.findings))
        it.until(lambda snapshot: len(snapshot.gpus) == COUNT and all(resting(view) for view in snapshot.gpus))
        it.until(lambda snapshot: all(view.loaded for view in snapshot.gpus))
        shown = it.until(lambda snapshot: snapshot.verdict.name == "as-expected")
        events = it.events()

    assert [event.text for event in events if event.kind == "gpu" or event.severity == "page"] == []
    assert {item.grade for view in shown.gpus for item in view.findings} <= {"information"}
    assert shown.gpus[1].outlier is not True


def headless(*given: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", "demo", "--headless", *given],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_the_command_itself_pages_and_names_the_card() -> None:
    """A lost card is told within seconds of its fall, whatever else is slow."""
    done = headless("--scenario", "gpu-lost", "--speed", "3", "--seconds", "20")

    assert done.returncode == Exit.PAGE
    assert "down: the server is gone" in done.stdout
    assert "Xid 79 on GPU 5: the card has fallen off the bus" in done.stdout
    assert done.stderr == ""


def test_without_a_compiler_it_runs_without_gpus_and_says_why(tmp_path: Path) -> None:
    empty = tmp_path / "nothing-here"
    empty.mkdir()
    done = headless("--scenario", "steady", "--seconds", "3", "--json", PATH=str(empty))
    snapshot = held_against("demo.json", done.stdout)["snapshot"]

    assert done.stderr == ""
    assert snapshot["gpus"] == []
    states = {source["name"]: (source["state"], source["detail"]) for source in snapshot["sources"]}
    assert states["nvml"] == (
        "waiting",
        "the simulated service has no GPUs here: their driver stub needs a C compiler (cc, gcc or clang); "
        "everything else works",
    )
    assert (states["log"][0], states["loads"][0]) == ("up", "up")
    assert snapshot["now"]["throughput"] > 0


def test_the_library_is_kept_for_this_user_only_and_the_demo_leaves_nothing_else(home: Path, tmp_path: Path) -> None:
    assert headless("--scenario", "idle", "--seconds", "0.5").stderr == ""
    (folder,) = (home / ".cache" / "ddwatch").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.suffix for path in folder.iterdir()] == [".so"]
    assert list(tmp_path.iterdir()) == []

"""A real SGLang is restarted with other flags and then killed: what ddwatch says of both, live and from the log."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.commands.documents import held_against
from tests.e2e.real_sglang.server import Background, free_port, serving
from tests.sidecar.running import Sidecar, running

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(900)]

T = TypeVar("T")
SEEN_WITHIN = 5.0
SIDECAR = ("--no-record", "--no-learn", "--no-nvml")


def within(seconds: float, condition: Callable[[], T], what: str) -> T:
    """The first true answer; fails with what was waited for."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.1)
    return answer


def events(sidecar: Sidecar, kind: str) -> list[dict[str, Any]]:
    """Everything of that kind on the event list."""
    found: list[dict[str, Any]] = sidecar.get("/v1/history?since=0").json()["events"]
    return [event for event in found if event["kind"] == kind]


def clean(sidecar: Sidecar) -> int:
    """Clean samples of the last five minutes."""
    samples: int = sidecar.get("/v1/snapshot").json()["window"]["clean"]
    return samples


def loads(snapshot: dict[str, Any]) -> dict[str, Any]:
    """How the source is that asks SGLang's own port."""
    found: dict[str, Any] = next(source for source in snapshot["sources"] if source["name"] == "loads")
    return found


class Story(NamedTuple):
    """What is left of a restart and a kill."""

    log: Path
    restarts: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]
    before_kill: dict[str, Any]
    after_kill: dict[str, Any]
    seen_after: float
    """Seconds from the kill to the lost source and a verdict that no longer judges."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("restarted")
    log, port = folder / "sglang.log", free_port()
    log.touch()
    with running("--log", str(log), *SIDECAR) as by_log:
        with serving(folder, port=port, log=log) as server, Background(server, 1):
            within(300, lambda: clean(by_log) >= 150, "clean samples before the restart")
        with serving(folder, "--max-running-requests", "6", port=port, log=log) as server:
            with Background(server, 2):
                comparisons = within(300, lambda: events(by_log, "comparison"), "the comparison after the restart")
            with running("--log", str(log), "--sglang-url", server.url, *SIDECAR) as by_port, Background(server, 3):

                def judged() -> Any:
                    snapshot = by_port.get("/v1/snapshot").json()
                    return snapshot if snapshot["now"]["provenance"] == "moments" else None

                before = within(60, judged, "a reading of the moments")
                server.kill()
                killed = time.monotonic()

                def lost() -> Any:
                    snapshot = held_against("snapshot.json", by_port.get("/v1/snapshot").text)
                    gone = loads(snapshot)["state"] == "lost" and snapshot["verdict"]["name"] == "down"
                    return snapshot if gone else None

                after = within(20, lost, "the source to be lost")
                seen_after = time.monotonic() - killed
        yield Story(log, events(by_log, "restart"), comparisons, before, after, seen_after)


def compared(story: Story, *words: str) -> subprocess.CompletedProcess[str]:
    """`ddwatch compare` on the log of both servers."""
    command = [sys.executable, "-m", "ddwatch.cli", "compare", str(story.log), "--tz", "UTC", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_restart_is_seen_live_and_its_flags_are_named(story: Story) -> None:
    (restart,) = story.restarts

    assert "max_running_requests 8 → 6" in restart["text"]


def test_the_restart_is_compared_by_itself(story: Story) -> None:
    (comparison,) = story.comparisons

    assert re.fullmatch(
        r"since the restart: step time [+-]\d+\.\d % ±\d+\.\d at equal batch and context", comparison["text"]
    )


def test_the_log_tells_what_the_restart_changed(story: Story) -> None:
    found = compared(story, "--json")
    document = held_against("compare.json", found.stdout)

    assert found.returncode in (0, 1, 2), found.stderr
    assert (document["restart"], len(document["restarts"])) == (1, 1)
    assert "max_running_requests 8 → 6" in document["changes"]
    assert document["outcome"] != "incomparable"
    ratio = document["step_seconds"]["ratio"]
    # The same model on the same cores, which other work shares.
    assert ratio["low"] < 1.6 and ratio["high"] > 0.6 and ratio["high"] - ratio["low"] < 0.4
    accept = document["accept_length"]["ratio"]
    assert accept["low"] <= 1.1 and accept["high"] >= 0.9
    factors = document["factors"]
    assert factors["accept_length"] * factors["load"] * factors["step_time"] == pytest.approx(factors["ratio"])


def test_it_is_told_in_one_table_and_one_sentence(story: Story) -> None:
    found = compared(story)

    assert found.stdout.startswith("restart 1 of 1 at ")
    assert found.stdout.splitlines()[-1].startswith("the restart changed step time by ")
    assert all(len(line) <= 79 for line in found.stdout.splitlines()[:-1])


def test_a_killed_server_is_seen_within_seconds(story: Story) -> None:
    assert loads(story.before_kill)["state"] == "up"
    assert story.seen_after < SEEN_WITHIN
    assert loads(story.after_kill)["state"] == "lost"
    assert story.after_kill["verdict"]["name"] == "down"

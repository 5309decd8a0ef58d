"""CPU time is taken from a real scheduler, and the text is changed: only the first makes ddwatch say slow-step.

Each decode step of this server lasts as long as if a GPU computed it, so other work on the machine does not slow it.
What really happened is read from the server's own moments: a premise that did not hold fails the test as such.
"""

import os
import signal
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psutil
import pytest

from tests.e2e.real_sglang.server import WORDS, Server, serving
from tests.e2e.real_sglang.test_restart import clean, within
from tests.sidecar.running import Sidecar, running

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(900)]

DEVICE_SECONDS = 0.06
CLEAN_NEEDED = 700
STOPPED_SECONDS, RUNNING_SECONDS = 0.1, 0.05
"""How long the scheduler is stopped and runs in turn."""
TEXT_SECONDS = 30.0
ANSWER_TOKENS = 200


class Asking:
    """One user with one kind of text, until the block is left."""

    def __init__(self, server: Server, seed: int, *, repeated: bool) -> None:
        self._server = server
        self._random = Random(seed)
        self._repeated = repeated
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.accepted: list[float] = []
        """Accept length of each answer."""

    def _prompt(self) -> str:
        if self._repeated:
            return " ".join([self._random.choice(WORDS)] * 40)
        return " ".join(self._random.choices(WORDS, k=40))

    def _run(self) -> None:
        while not self._over.is_set():
            answer = self._server.ask(self._prompt(), ANSWER_TOKENS)
            if answer.verify_steps:
                self.accepted.append(answer.completion_tokens / answer.verify_steps)

    def __enter__(self) -> "Asking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(120)


@contextmanager
def taken_from(process: psutil.Process) -> Iterator[None]:
    """Lets a process have the CPU for a part of the time only."""
    over = threading.Event()

    def stop_and_go() -> None:
        while not over.is_set():
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(RUNNING_SECONDS)

    thread = threading.Thread(target=stop_and_go, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
        os.kill(process.pid, signal.SIGCONT)


def scheduler_of(server: Server) -> psutil.Process:
    """The process that runs the steps."""
    (found,) = [
        child
        for child in psutil.Process(server.process.pid).children(recursive=True)
        if "scheduler" in " ".join([child.name(), *child.cmdline()])
    ]
    return found


def step_seconds(server: Server, before: Sequence[float]) -> float:
    """Mean step time since an earlier reading, by the server's own moments."""
    (after,) = server.moments()
    steps = after[0] - before[0]
    assert steps > 0, "no step was counted"
    return (after[2] - before[2]) / steps / 1e6


class Phase(NamedTuple):
    """What one stretch was, by the server, and what ddwatch said in it."""

    step_seconds: float
    accept_length: float
    verdicts: list[dict[str, Any]]


class Story(NamedTuple):
    """The stretches in order."""

    usual: Phase
    other_text: Phase
    slow: Phase
    after: dict[str, Any]


def snapshot(sidecar: Sidecar) -> dict[str, Any]:
    """Everything known now."""
    found: dict[str, Any] = sidecar.get("/v1/snapshot").json()
    return found


def verdict(sidecar: Sidecar, name: str) -> dict[str, Any] | None:
    """The verdict if it is this one."""
    found: dict[str, Any] = snapshot(sidecar)["verdict"]
    return found if found["name"] == name else None


def phase(server: Server, sidecar: Sidecar, seconds: float, *, seed: int, repeated: bool) -> Phase:
    """A stretch of one kind of text."""
    (before,) = server.moments()
    verdicts = []
    with Asking(server, seed, repeated=repeated) as asking:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            verdicts.append(snapshot(sidecar)["verdict"])
            time.sleep(0.5)
    return Phase(step_seconds(server, before), statistics.fmean(asking.accepted), verdicts)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("slowed")
    log: Path = folder / "sglang.log"
    log.touch()
    own = {"XDG_DATA_HOME": str(folder / "data"), "XDG_STATE_HOME": str(folder / "state")}
    with (
        serving(folder, log=log, device_seconds=DEVICE_SECONDS) as server,
        running("--log", str(log), "--no-record", "--no-nvml", environment=own) as sidecar,
    ):
        (began,) = server.moments()
        with Asking(server, 1, repeated=False) as asking:
            within(240, lambda: clean(sidecar) >= CLEAN_NEEDED, "clean samples to learn from")
            within(120, lambda: verdict(sidecar, "as-expected"), "the service to be as expected")
        usual = Phase(step_seconds(server, began), statistics.fmean(asking.accepted), [])
        other_text = phase(server, sidecar, TEXT_SECONDS, seed=2, repeated=True)

        (before,) = server.moments()
        with Asking(server, 3, repeated=False) as asking, taken_from(scheduler_of(server)):
            found = within(120, lambda: verdict(sidecar, "slow-step"), "slow-step")
            assert found is not None
            slow = Phase(step_seconds(server, before), usual.accept_length, [found, snapshot(sidecar)["verdict"]])
        with Asking(server, 4, repeated=False):
            after = within(180, lambda: verdict(sidecar, "as-expected"), "the slow step to be over")
        assert after is not None
    return Story(usual, other_text, slow, after)


def test_another_text_is_never_called_slow(story: Story) -> None:
    changed = story.other_text
    assert changed.accept_length / story.usual.accept_length > 1.15, "the premise: another accept length"
    assert changed.step_seconds / story.usual.step_seconds < 1.08, "the premise: the same step time"

    assert {verdict["severity"] for verdict in changed.verdicts} <= {"ok", "unknown", "notice"}
    assert "slow-step" not in {verdict["name"] for verdict in changed.verdicts}


def test_cpu_time_taken_from_the_scheduler_is_a_slow_step(story: Story) -> None:
    assert story.slow.step_seconds / story.usual.step_seconds > 1.15, "the premise: longer steps"

    first = story.slow.verdicts[0]
    assert (first["name"], first["severity"]) == ("slow-step", "page")
    assert " per step" in first["sentence"]
    assert "CUDA graph" not in (first["cause"] or ""), "it was started without graphs, so they did not go off"


def test_it_is_over_when_the_scheduler_has_its_time_back(story: Story) -> None:
    assert story.after["severity"] == "ok"

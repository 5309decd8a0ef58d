"""A seeded service under each kind of the corpus's traffic, as its log and its port tell it: what a live watch is fed.

The demo's scheduler decides who runs when and what the log says; the true cost of a step is the corpus's, which has
another form than ddwatch's model, with noise that lasts over many steps and single hiccups of two seconds.
"""

import math
from collections.abc import Callable, Iterator
from datetime import timezone
from random import Random

from ddwatch.core.records import Loads, RankLoad, SourceFault
from ddwatch.demo.engine import Simulation, Step
from ddwatch.demo.log_writer import LogWriter
from ddwatch.demo.physics import CODE, PREDICTABLE, REASONING, TextClass, text_class
from ddwatch.demo.requests import Act, Boot, Request, Shutdown, Silence, Users
from tests.bench.detection.corpus import Machine, Setting, Slowdown, Traffic

START = 1_777_636_800.0
TICK_SECONDS = 0.25
"""The sidecar reads its log this often: lines arrive together."""
POLL_SECONDS = 2.0
LOG_INTERVAL = 40
"""Steps per line where the port is asked as well."""
HICCUPS_PER_STEP = 0.002 / 40
HICCUP_SECONDS = 2.0
LOAD_SECONDS = 60.0
UNANSWERED_SECONDS = 20.0
"""A port that was not heard for so long refused: its process was not there."""
BROKEN = text_class("broken", 1.12)
"""Any text to a drafter that does not work."""
STARVING_SECONDS = 10.0
"""A stretch without any step that is long enough for `starved` to be true."""
SPOKEN_SECONDS = 300.0
"""Text that was asked for so long ago may still be on its way."""

Told = str | Loads | SourceFault


class Change:
    """What goes wrong at a moment of the story: steps take longer or, without a slowdown, the drafter breaks.

    A drafter breaks with the next change of text, and `at` says when that was.
    """

    def __init__(self, slowdown: Slowdown | None, at: float) -> None:
        self.slowdown = slowdown
        self.at = at


class _Hardware:
    """What each step really costs."""

    def __init__(self, story: "Story", setting: Setting, machine: Machine, random: Random) -> None:
        self._story = story
        self._setting = setting
        self._machine = machine
        self._random = random
        self._level = random.gauss(0.0, 1.0)
        self._steps = 0

    def seconds(self, batch: int, total_context: float) -> float:
        """The next step; called once for each."""
        random, setting, change = self._random, self._setting, self._story.change
        if self._steps % (setting.interval or LOG_INTERVAL) == 0:
            fresh = math.sqrt(1.0 - setting.lag**2) * random.gauss(0.0, 1.0)
            self._level = setting.lag * self._level + fresh
        self._steps += 1
        seconds = self._machine.seconds(batch, total_context)
        since = self._story.at - change.at if change is not None else -1.0
        if change is not None and change.slowdown is not None and since >= 0.0:
            seconds = change.slowdown(seconds, since, batch, total_context)
        seconds *= math.exp(setting.spread * self._level)
        return seconds + (HICCUP_SECONDS if random.random() < HICCUPS_PER_STEP else 0.0)


class _Port:
    """The world around the service: nobody asks over the port, ddwatch polls it."""

    def __init__(self) -> None:
        self.told: list[tuple[float, Told]] = []
        self._next = START

    def reach(self, simulation: Simulation) -> None:
        """Answers the polls that are due."""
        if simulation.at - self._next > UNANSWERED_SECONDS:
            while self._next <= simulation.at:
                fault = SourceFault(at=self._next, source="loads", reason="nothing answers", gone=True)
                self.told.append((self._next, fault))
                self._next += POLL_SECONDS
        if self._next > simulation.at:
            return
        # A port that is busy with a long pass answers behind it.
        self._next = simulation.at + POLL_SECONDS
        loads = simulation.loads()
        ranks = tuple(
            RankLoad(
                dp_rank=load.number,
                running=load.running,
                queued=load.queued,
                used_tokens=load.used_tokens,
                max_total_tokens=load.pool_tokens,
                moments=load.moments,
            )
            for load in loads
        )
        self.told.append((simulation.at, Loads(at=simulation.at, source="loads", ranks=ranks)))

    def idle(self, simulation: Simulation, until: float) -> float:
        """Time passes until the next poll."""
        return min(until, max(self._next, simulation.at + 0.001))

    def asked(self) -> list[Request]:
        """Nobody asks."""
        return []


def _acts(traffic: Traffic, random: Random, text: Callable[[], TextClass]) -> Iterator[Act]:
    """What is asked of the service, endless: the number of users, their text and their pauses change now and then."""
    yield Boot(seconds=LOAD_SECONDS)
    until_restart = traffic.restart_every or math.inf
    while True:
        seconds = random.uniform(0.3, 1.7) * (traffic.idle_every or traffic.swing_every)
        until_restart -= seconds
        yield Users(
            seconds=seconds,
            count=traffic.ranks * random.randint(*traffic.users),
            prompt=traffic.prompt,
            completion=traffic.completion,
            think=(0.0, 1.0) if traffic.prefill_share else (0.0, 4.0),
            texts=(text(),),
            cut=until_restart <= 0.0,
        )
        if traffic.idle_every:
            yield Silence(random.uniform(5.0, 900.0))
        if until_restart <= 0.0:
            until_restart = traffic.restart_every
            yield Shutdown()
            yield Boot(seconds=random.uniform(60.0, 600.0))


class Story:
    """Plays a setting from a seed."""

    def __init__(self, setting: Setting, seed: str, machine: Machine, change: Change | None = None) -> None:
        self.setting = setting
        self.change = change
        self.not_serving: list[tuple[float, float]] = []
        """When its process was gone or loading."""
        self.standstills: list[tuple[float, float]] = []
        """When no rank made a step for long."""
        self.texts: list[tuple[float, str]] = []
        """What kind of text was asked for from when on."""
        random = Random(f"{seed}:{setting.name}")
        self._choice = Random(f"{seed}:{setting.name}:texts")
        self._broken = False
        self._acts = _acts(setting.traffic, random, self._text)
        self._port = _Port() if setting.interval == 0 else None
        self._stepped_at = START
        self._simulation = Simulation(
            LogWriter(timezone.utc, dp=setting.traffic.ranks),
            seed=f"{seed}:{setting.name}",
            start=START,
            ranks=setting.traffic.ranks,
            interval=setting.interval or LOG_INTERVAL,
            pool_tokens=262144 * setting.traffic.ranks,
            truth=_Hardware(self, setting, machine, random).seconds,
            observe=self._observe,
            outside=self._port,
        )

    @property
    def at(self) -> float:
        """The present of the service."""
        return self._simulation.at

    def _text(self) -> TextClass:
        """What the next users ask for."""
        change = self.change
        if change is None or change.slowdown is not None or self.at < change.at:
            text = self._choice.choice((PREDICTABLE, CODE, REASONING))
            self.texts.append((self.at, text.name))
            return text
        if not self._broken:
            self._broken, change.at = True, self.at
        return BROKEN

    def _observe(self, step: Step) -> None:
        begun = step.at - step.seconds
        if begun - self._stepped_at >= STARVING_SECONDS:
            self.standstills.append((self._stepped_at, begun))
        self._stepped_at = max(self._stepped_at, step.at)

    def play(self) -> Iterator[tuple[float, Told]]:
        """Lines and answers as they arrive, endless."""
        for act in self._acts:
            began = self.at
            told = [(math.ceil(at / TICK_SECONDS) * TICK_SECONDS, line) for at, line in self._simulation.play([act])]
            if isinstance(act, Boot):
                self.not_serving.append((began - 10.0, self.at + 10.0))
            found: list[tuple[float, Told]] = [*told]
            if self._port is not None:
                found += self._port.told
                self._port.told.clear()
            found.sort(key=lambda item: item[0])
            yield from found

    def changed(self, at: float) -> bool:
        """Whether what goes wrong has gone wrong by then."""
        change = self.change
        return change is not None and (self._broken or change.slowdown is not None) and at >= change.at

    def gone(self, at: float) -> bool:
        """Whether the process was not there, or not yet: `down` is true then."""
        return any(begin <= at <= end for begin, end in self.not_serving)

    def spoke(self, at: float) -> set[str]:
        """The kinds of text of the minutes before this moment."""
        begun = [name for since, name in self.texts if since <= at]
        lately = {name for since, name in self.texts if at - SPOKEN_SECONDS <= since <= at}
        return lately | set(begun[-1:])

    def stood_still(self, at: float) -> bool:
        """Whether running requests got nothing around this moment: `starved` is true then."""
        return any(begin <= at <= end + STARVING_SECONDS for begin, end in self.standstills)

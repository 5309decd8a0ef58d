"""A watch over a story: what the sidecar does with lines and answers, asked for its verdict every second."""

from collections.abc import Iterable
from datetime import timezone

from ddwatch.core.expectation.fit import Refusal, fit_profile
from ddwatch.core.expectation.learning import Learner
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.setups import Setups
from ddwatch.core.expecting import Expecting
from ddwatch.core.grammar import LogReader
from ddwatch.core.monitor import Monitor
from ddwatch.core.positions import Positions
from ddwatch.core.records import LinesSeen, SourceUp
from ddwatch.core.snapshot import Verdict, VerdictName
from tests.bench.detection.stories import START, Story, Told

ALARMS: frozenset[VerdictName] = frozenset({"slow-step", "low-accept", "high-accept", "stalled", "starved", "down"})
"""Verdicts that tell somebody."""
JUDGED: frozenset[VerdictName] = frozenset({"as-expected", "slow-step", "low-accept", "high-accept"})
LOG, PORT = "log", "loads"


class Watched:
    """Grammar and monitor over one story."""

    def __init__(self, expecting: Expecting) -> None:
        self.expecting = expecting
        self.alarms: list[tuple[float, Verdict]] = []
        """Each time that an alarm became the verdict."""
        self.seconds: dict[VerdictName, int] = {}
        """Seconds under each verdict."""
        self.clean = 0
        """Clean samples of the witness that is judged."""
        self._monitor = Monitor(started_at=START, expecting=expecting)
        self._monitor.accept(SourceUp(at=START, source=LOG), LOG)
        self._reader = LogReader(timezone.utc, START)
        self._second = START
        self._verdict: VerdictName | None = None
        self._moments = False

    def take(self, at: float, item: Told) -> None:
        """The next line or answer, at its arrival."""
        while self._second + 1.0 <= at:
            self._second += 1.0
            self._ask()
        if not isinstance(item, str):
            self._monitor.accept(item, PORT)
            return
        for record in self._reader.read(item.encode(), at, None):
            self._monitor.accept(record, LOG)
        self._monitor.accept(LinesSeen(at=at, source=LOG, lines=1), LOG)

    def _ask(self) -> None:
        first = self._monitor.verdicts(self._second)[0]
        self.seconds[first.name] = self.seconds.get(first.name, 0) + 1
        if first.name != self._verdict and first.name in ALARMS:
            self.alarms.append((self._second, first))
        self._verdict = first.name
        drained = self._monitor.drain()
        self._moments = self._moments or any(sample.provenance == "moments" for sample in drained)
        witness = "moments" if self._moments else "log"
        self.clean += sum(sample.clean for sample in drained if sample.provenance == witness)

    @property
    def judged_seconds(self) -> int:
        """Seconds under a verdict that holds something against the model."""
        return sum(seconds for name, seconds in self.seconds.items() if name in JUDGED)


def earlier_part(story: Story, seconds: float) -> Iterable[tuple[float, Told]]:
    """The story up to so many seconds from its begin."""
    for at, item in story.play():
        if at - START > seconds:
            return
        yield at, item


def fitted(story: Story, seconds: float) -> Profile:
    """A profile that is fitted to the log of the earlier part, as `ddwatch fit` does."""
    reader, positions, setups = LogReader(timezone.utc, START), Positions(), Setups()
    for at, item in earlier_part(story, seconds):
        if isinstance(item, str):
            for record in reader.read(item.encode(), at, None):
                setups.see(record, positions.see(record))
    chosen = setups.richest()
    if chosen is None:
        raise ValueError(f"{story.setting.name}: no sample")
    profile = fit_profile(
        chosen.gathering.observations(),
        name=story.setting.name,
        samples=chosen.gathering.samples,
        pairs=chosen.gathering.pairs(),
        windows=list(chosen.gathering.windows.kept),
        graph_sizes=chosen.graph_sizes,
        identity=chosen.identity,
        judged=chosen.judged,
    )
    if isinstance(profile, Refusal):
        raise ValueError(f"{story.setting.name}: {profile.sentence}")
    return profile


def learned(story: Story, seconds: float) -> bytes:
    """What a watch over the earlier part learns by itself, as the sidecar saves it."""
    watched = Watched(Expecting())
    for at, item in earlier_part(story, seconds):
        watched.take(at, item)
    return watched.expecting.learner.state()


def recalled(state: bytes) -> Expecting:
    """Judges by what was learned before, and goes on learning."""

    def recall(_: object) -> Learner | None:
        learner = Learner.restored(state)
        return None if isinstance(learner, Refusal) else learner

    return Expecting(recall=recall)

"""All detectors of one watched service behind one door: records and samples in, suspicions out."""

from ddwatch.core.detection.accept import AcceptDetector
from ddwatch.core.detection.progress import Progress
from ddwatch.core.detection.step import Stated
from ddwatch.core.detection.step_watch import Standing, StepWatch
from ddwatch.core.detection.storm import RESTARTS, RETRACTIONS, Storm
from ddwatch.core.detection.suspicion import Suspicion
from ddwatch.core.detection.text import TextChanged, TextWatch
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.records import (
    PrefillBatch,
    Record,
    Retraction,
    ServerReady,
    ServerStart,
    ServerStop,
    SpeculationSetup,
)
from ddwatch.core.snapshot import Sample


class Detectors:
    """Told every record and every sample in order; asked at any time, which changes nothing."""

    def __init__(self, profile: Profile | None = None, *, coupled: bool | None = None) -> None:
        self.progress = Progress()
        self._coupled = coupled
        self._steps = None if profile is None else StepWatch(profile, coupled=coupled)
        self._accept = AcceptDetector(() if profile is None else profile.accept)
        self._text = TextWatch()
        self._restarts = Storm(*RESTARTS)
        self._retractions = Storm(*RETRACTIONS)
        self._seen = False
        self._ready = False
        self._wished = False

    def use(self, profile: Profile) -> None:
        """Judges by this profile from now on; what is suspected stays."""
        if self._steps is None:
            self._steps = StepWatch(profile, coupled=self._coupled)
        else:
            self._steps.use(profile)
        self._accept.curves = profile.accept

    def couple(self, coupled: bool | None) -> None:
        """Whether DP ranks step together, once the arguments tell."""
        self._coupled = coupled
        if self._steps is not None:
            self._steps.couple(coupled)

    def speculation(self, block_size: int | None) -> None:
        """The most tokens that a step can commit, once it is known."""
        self._accept.block_size = block_size

    def restarted(self, at: float, engine: str | None = None) -> None:
        """A new process, however it was noticed: judged afresh, and counted when the one before did not end by wish.

        A server that was ready and then stopped in order was stopped by somebody; one that never got that far was not.
        """
        if self._seen and not self._wished:
            self._restarts.see(at)
        self._seen = True
        self._ready = self._wished = False
        if self._steps is not None:
            self._steps.restart(at, engine)
        self._accept.restart(at)
        self._text.restart()
        self.progress.restart()

    def record(self, record: Record) -> None:
        """Takes the next record."""
        if isinstance(record, ServerStart):
            self.restarted(record.at, record.rank.engine)
            return
        self.progress.see(record)
        if isinstance(record, Retraction):
            self._retractions.see(record.at)
        elif isinstance(record, PrefillBatch):
            self._accept.prefilled(record)
        elif isinstance(record, SpeculationSetup):
            self.speculation(record.block_size or self._accept.block_size)
        elif isinstance(record, ServerReady):
            self._ready = True
        elif isinstance(record, ServerStop):
            self._wished = self._ready
            self._text.restart()

    def sample(self, sample: Sample) -> TextChanged | None:
        """Takes the next sample of any rank, clean or not; returns a change of text when one is complete."""
        self._seen = True
        if self._steps is not None:
            self._steps.see(sample)
        self._accept.see(sample)
        return self._text.see(sample)

    @property
    def standing(self) -> Standing:
        """What became of the newest sample's step time."""
        return "not judged" if self._steps is None else self._steps.standing

    @property
    def suspicious(self) -> bool:
        """Whether a pending or firing suspicion forbids learning from samples now."""
        return self._accept.suspicious or (self._steps is not None and self._steps.suspicious)

    @property
    def accept_since(self) -> float | None:
        """Since when an accept length is suspected, None while none is."""
        return self._accept.since

    def suspicions(self, now: float) -> tuple[Suspicion, ...]:
        """What is suspected at this instant."""
        moving = self.progress.state(now)
        storms = (self._restarts.state(now), self._retractions.state(now))
        return (
            *(() if moving is None else (moving,)),
            *(() if self._steps is None else self._steps.suspicions(now)),
            *self._accept.suspicions(now),
            *(one for one in storms if one is not None),
        )

    def stated(self) -> tuple[Stated, ...]:
        """What each step detector says of its false-alarm rate."""
        return () if self._steps is None else self._steps.stated()

"""Judges the step times of a service: one step detector for each group of ranks that step together."""

from collections import deque
from math import log
from typing import Literal

from msgspec.structs import replace

from ddwatch.core.detection.noise import of_profile
from ddwatch.core.detection.step import Stated, StepDetector
from ddwatch.core.detection.suspicion import Scalar, Suspicion, merged
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.retention import Coupling, Observation
from ddwatch.core.snapshot import Provenance, Sample

MOMENTS_SECONDS = 30.0
"""After a sample from decode moments, log lines of the same group are not judged for this long."""
ROUND_SECONDS = 10.0
"""A round of coupled ranks is closed after this, whoever is missing."""
NEWEST_WINDOWS = 20
"""Windows of any rank of which the share of prefill is told, beside that of the windows before them ..."""
USUAL_WINDOWS = 1000
"""... of which about so many count."""
EDGE_ERROR = 0.05
"""Error of the model at least, at loads next to the evidence: near enough to judge, not seen itself."""

Standing = Literal["judged", "not judged", "outside evidence"]
"""What became of the newest sample: contaminated or incomplete ones are not judged, and none without a model."""

Group = tuple[str | None, int | None]
"""Engine, and the rank where ranks step on their own."""


class _Heard:
    """One rank's line within a round."""

    __slots__ = ("at", "expected", "item")

    def __init__(self, at: float, item: Observation, expected: float) -> None:
        self.at = at
        self.item = item
        self.expected = expected


class _GroupWatch:
    """The detector of one group, and the round that its ranks are speaking in."""

    __slots__ = ("detector", "moments_at", "provenance", "round", "speakers")

    def __init__(self, detector: StepDetector) -> None:
        self.detector = detector
        self.provenance: Provenance | None = None
        self.moments_at: float | None = None
        self.round: dict[int | None, _Heard] = {}
        self.speakers: set[int | None] = set()
        """Ranks that spoke in the round before."""


class PrefillShare:
    """How many windows have prefill in them: of the newest ones, and of those before them."""

    __slots__ = ("_newest", "_usual", "usual")

    def __init__(self) -> None:
        self._newest: deque[bool] = deque()
        self._usual = 0
        self.usual: float | None = None
        """Of the windows before the newest; None while there are none."""

    def see(self, prefill: bool, *, suspicious: bool) -> None:
        """Takes the next window; what is seen under a suspicion is not usual."""
        self._newest.append(prefill)
        if len(self._newest) <= NEWEST_WINDOWS:
            return
        left = float(self._newest.popleft())
        if not suspicious:
            self._usual = min(self._usual + 1, USUAL_WINDOWS)
            before = self.usual or 0.0
            self.usual = before + (left - before) / self._usual

    @property
    def newest(self) -> float | None:
        """Of the newest windows; None while they are too few to tell."""
        return sum(self._newest) / len(self._newest) if len(self._newest) == NEWEST_WINDOWS else None


class StepWatch:
    """Takes every sample, clean or not (the loads of all ranks are needed), and says what is suspected."""

    def __init__(self, profile: Profile, *, coupled: bool | None = None) -> None:
        self._profile = profile
        self._noise = of_profile(profile)
        self._coupling = Coupling(coupled)
        self._groups: dict[Group, _GroupWatch] = {}
        self.standing: Standing = "not judged"
        self._prefill = PrefillShare()

    @property
    def judges(self) -> bool:
        """A profile that was not calibrated on the service itself accuses nobody."""
        return self._profile.calibrated

    def couple(self, coupled: bool | None) -> None:
        """Whether DP ranks step together, once the arguments tell."""
        self._coupling.coupled = coupled

    def use(self, profile: Profile) -> None:
        """Judges by a profile that has learned more; what is suspected stays."""
        self._profile = profile
        self._noise = of_profile(profile)
        for group in self._groups.values():
            group.detector.use(profile.step_time, self._noise)

    def restart(self, at: float, engine: str | None = None) -> None:
        """A new process of this engine is judged afresh; without a name, of all (moments name no engine)."""
        self._coupling = Coupling(self._coupling.coupled)
        for (name, _), group in self._groups.items():
            if engine is None or name is None or name == engine:
                group.detector.restart(at)
                group.round.clear()
                group.speakers.clear()
                group.moments_at = None

    def see(self, sample: Sample) -> None:
        """Takes the next sample of any rank."""
        self.standing = "not judged"
        self._prefill.see("prefill" in sample.flags, suspicious=self.suspicious)
        item = self._coupling.observation(sample)
        if item is None or not self.judges or sample.provenance not in ("log", "moments"):
            return
        if not self._profile.covers(item.batch, item.total_context):
            self.standing = "outside evidence"
            return
        expected = self._profile.step_time.seconds(item.batch, item.total_context)
        if expected <= 0.0:
            return
        self.standing = "judged"
        shared = sample.dp_rank is not None and self._coupling.coupled is not False
        group = self._group((sample.engine, None if shared else sample.dp_rank))
        if not self._prefers(group, sample):
            return
        heard = _Heard(sample.at, item, expected)
        if not shared:
            self._judge(group, [heard])
            return
        self._join(group, sample.dp_rank, heard)

    def _group(self, key: Group) -> _GroupWatch:
        known = self._groups.get(key)
        if known is None:
            engine, dp = key
            words = " ".join(word for word in (engine, None if dp is None else f"DP{dp}") if word)
            detector = StepDetector(self._profile.step_time, self._noise, group=words or None)
            known = self._groups[key] = _GroupWatch(detector)
        return known

    @staticmethod
    def _prefers(group: _GroupWatch, sample: Sample) -> bool:
        """Whether this witness is judged: moments before log lines, never both at once."""
        if sample.provenance == "moments":
            group.moments_at = sample.at
        elif group.moments_at is not None and abs(sample.at - group.moments_at) <= MOMENTS_SECONDS:
            return False
        if group.provenance != sample.provenance:
            if group.provenance is not None:
                group.detector.change_witness()
                group.round.clear()
            group.provenance = sample.provenance
        return True

    def _join(self, group: _GroupWatch, rank: int | None, heard: _Heard) -> None:
        """Adds a rank's line to its group's round; the ranks' lines of one round are one measurement."""
        first = next(iter(group.round.values()), None)
        if first is not None and (rank in group.round or abs(heard.at - first.at) > ROUND_SECONDS):
            self._close(group)
        group.round[rank] = heard
        if group.speakers and group.speakers <= group.round.keys():
            self._close(group)

    def _close(self, group: _GroupWatch) -> None:
        group.speakers = set(group.round)
        self._judge(group, list(group.round.values()))
        group.round = {}

    def _judge(self, group: _GroupWatch, lines: list[_Heard]) -> None:
        """Hands the middle line of a round to the detector."""
        ordered = sorted(lines, key=lambda one: log(one.item.step_seconds / one.expected))
        middle = ordered[(len(ordered) - 1) // 2]
        batch, total = middle.item.batch, middle.item.total_context
        group.detector.see(
            max(one.at for one in lines),
            middle.item.step_seconds,
            middle.expected,
            batch=batch,
            total_context=total,
            fit_error=self._error(batch, total),
        )

    def _error(self, batch: float, total: float) -> float:
        """How far the model may be off at this load."""
        error = self._profile.fit_error_at(batch, total) or 0.0
        regions = self._profile.evidence.regions
        if any(region.near(batch, total, 1.0) for region in regions):
            return error
        return max(error, EDGE_ERROR)

    @property
    def suspicious(self) -> bool:
        """Whether a step time is suspected anywhere, so that nothing should be learned."""
        return any(group.detector.suspicious for group in self._groups.values())

    def suspicions(self, now: float) -> tuple[Suspicion, ...]:
        """What is suspected now, groups that fail alike as one."""
        found = [group.detector.state(now) for group in self._groups.values()]
        share: dict[str, Scalar] = {
            "prefill_share": self._prefill.newest,
            "usual_prefill_share": self._prefill.usual,
        }
        told = merged(one for one in found if one is not None)
        return tuple(replace(one, evidence={**one.evidence, **share}) for one in told)

    def stated(self) -> tuple[Stated, ...]:
        """What each group's detector says of itself."""
        return tuple(group.detector.stated() for group in self._groups.values())

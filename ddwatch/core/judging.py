"""Sets every reading beside the model, and remembers what verdicts may be reached from."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ddwatch.core.detection.printed import PrintedAccept
from ddwatch.core.detection.suspicion import Suspicion, merged
from ddwatch.core.detection.together import Detectors
from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.learning import Learner
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expecting import Expecting, Judged, factor_view, reference_view
from ddwatch.core.history import EventLog
from ddwatch.core.hysteresis import Hysteresis
from ddwatch.core.records import DecodeBatch, Record, ServerStart
from ddwatch.core.snapshot import FactorView, ModelView, Now, ReferenceView, Sample, ServerView

EDGE_SECONDS = 5.0
"""How long a load must lie within the evidence, or outside it, before the verdict follows."""
BLOCK_DRAFTERS = ("DFLASH", "DDTREE")
LEAST_DEPTH = 8
"""Of a shorter draft nearly all may be accepted in good health."""
HELD_SECONDS = 30.0
"""A comparison with the model stands this long when no further sample comes."""


class Judging:
    """The comparison side of one watch."""

    def __init__(self, expecting: Expecting, events: EventLog, started_at: float) -> None:
        self._expecting = expecting
        self._events = events
        self._judgeable = Hysteresis(EDGE_SECONDS)
        self._unsaved = False
        self._detectors = Detectors()
        self._printed = PrintedAccept()
        self._used: Profile | None = None
        self._profile: Profile | None = None
        """The profile that spoke last; it is shown on while nothing runs."""
        self.newest = expecting.judge(())
        """The newest reading beside the model."""
        self._held = (started_at, self.newest)
        self._several = False
        self.clean_ratio_at: float | None = None
        """Time of the newest clean reading that could be compared with the model."""

    @property
    def judgeable(self) -> bool:
        """Whether the load lies within the evidence, with hysteresis at its edge."""
        return self._judgeable.state

    def compare(self, now: float, samples: Sequence[Sample]) -> None:
        """Sets the newest samples of all busy ranks beside the model; a contaminated reading has no ratio."""
        judged = self._expecting.judge(samples)
        if any(sample.flags for sample in samples):
            judged = replace(judged, ratio=None)
        if judged.ratio is not None:
            self.clean_ratio_at = now
        self._several = len(samples) > 1
        if samples:
            self._judgeable.see(now, judged.covered)
        self.newest = judged
        if judged.profile is not None:
            self._profile = judged.profile
        if samples and (judged.covered or not self._judgeable.state):
            self._held = (now, judged)

    def held(self, now: float) -> Judged:
        """The comparison that verdicts are reached from: the last one stands through a short silence."""
        at, judged = self._held
        return judged if now - at <= HELD_SECONDS else self.newest

    def beside(self, samples: Sequence[Sample]) -> Judged:
        """Samples of one instant beside the model; nothing is remembered of it."""
        return self._expecting.judge(samples)

    def model(self, reading: Now) -> ModelView | None:
        """The model in force as it is shown."""
        return self._expecting.model(reading, replace(self.newest, profile=self._profile))

    def reference(self) -> ReferenceView | None:
        """The remembered conditions of the model in force."""
        return reference_view(self._profile)

    def factors(self, now: float, reading: Now) -> FactorView | None:
        """Measured over reference, split; None for a contaminated reading."""
        if reading.flags:
            return None
        profile = self.newest.profile
        several = self.newest.load if self._several else None
        return factor_view(profile, reading, self._expecting.split_at(now, profile), several)

    def record(self, record: Record) -> None:
        """Shows the detectors a record; starts come through `interrupt`."""
        if not isinstance(record, ServerStart):
            self._detectors.record(record)
        if isinstance(record, DecodeBatch):
            self._footnote(record.at, self._printed.line(record))

    def _footnote(self, at: float, text: str | None) -> None:
        """Tells what the printed accept figures mean; nothing is judged by it."""
        if text is not None:
            self._events.add(at, "speculation", "ok", text)

    def sample(self, sample: Sample, *, calm: bool) -> None:
        """Judges a sample, and learns from it unless something is suspected.

        Args:
            sample: any, of the witness that is preferred.
            calm: whether the verdict allows to learn.
        """
        before = self._detectors.accept_since
        changed = self._detectors.sample(sample)
        self._footnote(sample.at, self._printed.sample(sample))
        since = self._detectors.accept_since
        if before is None and since is not None:
            # It was seen before it could be suspected.
            self._unsaved = self._expecting.doubt(since) or self._unsaved
        if changed is not None:
            self._events.add(sample.at, "text", "ok", changed.sentence())
        suspicious = not calm or self._detectors.suspicious
        self._unsaved = self._expecting.see(sample, suspicious=suspicious) or self._unsaved
        self._follow_profile()

    def _follow_profile(self) -> None:
        """The detectors judge by the given profile, else by what has been learned."""
        profile = self._expecting.calibrated()
        if profile is not None and profile is not self._used:
            self._used = profile
            self._detectors.use(profile)

    def suspicions(self, now: float, cadence: float | None) -> tuple[Suspicion, ...]:
        """What the detectors hold, one per name.

        Args:
            now: when.
            cadence: usual seconds between decode lines of a rank.
        """
        self._detectors.progress.cadence = cadence
        return merged(self._detectors.suspicions(now))

    def learner(self) -> Learner | None:
        """What has been learned, once after each change that should be saved."""
        unsaved, self._unsaved = self._unsaved, False
        return self._expecting.learner if unsaved else None

    def relearn(self) -> None:
        """Forgets what was learned of this service and begins anew."""
        self._unsaved = False
        self._expecting.relearn()

    def identify(self, at: float, server: ServerView) -> None:
        """Takes what is known of the service and tells when it is another one, or not the given profile's."""
        known, refused = self._expecting.identity, self._expecting.refused
        self._detectors.speculation(server.block_size or most_committed(server.arguments))
        self._detectors.progress.every_step = server.decode_log_interval == 1
        self._printed.interval = server.decode_log_interval
        drafts = server.arguments.get("speculative_num_draft_tokens")
        self._printed.drafts = drafts if isinstance(drafts, int) and drafts > 0 else None
        if not self._expecting.identify(server):
            return
        self._profile = None
        self._detectors.couple(self._expecting.coupled)
        if known.model is not None and _contradicts(known, self._expecting.identity):
            self._events.add(at, "arguments", "ok", "this is another setup now: it is judged by its own profile")
        if self._expecting.refused and self._expecting.refused != refused:
            first = self._expecting.refused[0]
            self._events.add(at, "arguments", "notice", f"the given profile is of another service: {first}")

    def interrupt(self, at: float, engine: str | None, *, restarted: bool) -> None:
        """A server started anew: nothing measured before speaks for it.

        Args:
            at: when.
            engine: whose start it is, where the log tells.
            restarted: whether it is a start of its own, not another sign of the last one.
        """
        if restarted:
            self._detectors.restarted(at, engine)
            self._printed.restart()
        self._expecting.interrupt()
        self._held = (at, self._expecting.judge(()))
        self._judgeable.reset()


def most_committed(arguments: Mapping[str, object]) -> int | None:
    """The most tokens that a step can commit, by the arguments: the draft's depth and the bonus token, else its tokens.

    A tree has more tokens than that, which only makes this the more careful. None where the arguments do not tell, and
    where it is so small that text which is merely easy reaches it.
    """
    depth, drafts = arguments.get("speculative_num_steps"), arguments.get("speculative_num_draft_tokens")
    # A block is drafted in one step, and n-grams in none: their depth says nothing.
    by_steps = not any(name in str(arguments.get("speculative_algorithm")).upper() for name in BLOCK_DRAFTERS)
    most = 0
    if by_steps and isinstance(depth, int) and not isinstance(depth, bool) and depth > 0:
        most = depth + 1
    elif isinstance(drafts, int) and not isinstance(drafts, bool):
        most = drafts
    return most if most >= LEAST_DEPTH else None


def _contradicts(before: Identity, after: Identity) -> bool:
    """Whether something that was known is another thing now; what merely became known contradicts nothing."""
    return any(
        value != getattr(after, name)
        for name in before.__struct_fields__
        if (value := getattr(before, name)) is not None
    )

"""What the watched service should do now: keeps the model in force, learns one, and compares readings with it.

Precedence: a profile that was given and is this service's, then what has been learned here where that covers, then a
built-in profile of the same identity. A profile of another identity is never used, and said aloud.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ddwatch.core.expectation.accept import OVERALL
from ddwatch.core.expectation.factors import Factors, Load, Split, factor_split, split_unexplained
from ddwatch.core.expectation.identity import Identity, identity_of, joined, judged_of, key_of
from ddwatch.core.expectation.learning import Learner
from ddwatch.core.expectation.predict import expected_now
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.snapshot import (
    CurvePoint,
    Expected,
    FactorView,
    ModelView,
    Now,
    ReferenceView,
    Sample,
    ServerView,
)

CURVE_POINTS = 24
CURVE_REACH = 1.5
"""The curve is drawn this far beyond the larger of the evidence and the present context."""
SPLIT_SECONDS = 1.0
"""Least time between two samples that tell an offset from a slope."""
SPLIT_KEPT = 300
SPLIT_WINDOW_SECONDS = 300.0
SPLIT_AGE_SECONDS = 5.0
"""How long one answer stands."""
APART = 1.05
"""Ranks whose expected step times differ by more than this are not spoken of in one."""
ONE_TOKEN = 1.0
"""Tokens per step and request where the service does not speculate and prints no accept length."""


class Judged(Struct, frozen=True, kw_only=True):
    """A reading beside what the model holds of it."""

    expected: Expected | None
    ratio: float | None
    profile: Profile | None
    covered: bool
    """Whether the evidence reaches this load, so that a difference may be held against the service."""
    reason: str
    """Why there is nothing to judge by; empty when there is."""
    load: tuple[float, float] | None = None
    """Batch and total context that one step had to carry: the largest among ranks that step together."""
    apart: bool = False
    """Whether ranks that do not step together should take different times, so that no one step time holds for all."""

    @property
    def doubt(self) -> str | None:
        """Why a request that ran at this load cannot be held against the model, if so."""
        if self.apart:
            return "ranks step apart"
        if self.profile is None or (self.covered and self.profile.calibrated):
            return None
        return "the model only guesses here" if self.profile.calibrated else "the model is not calibrated"


Recall = Callable[[Identity], Learner | None]
"""Gives back what was learned of a service in an earlier watch."""


class Expecting:
    """The model side of one watch."""

    def __init__(
        self,
        *,
        given: Profile | None = None,
        built_in: Sequence[Profile] = (),
        recall: Recall | None = None,
    ) -> None:
        """Begins without knowing whose service this is.

        Args:
            given: a profile that the operator names.
            built_in: profiles that come with ddwatch; used only when their identity is this service's.
            recall: finds what an earlier watch has learned.
        """
        self._given = given
        self._built_in = tuple(built_in)
        self._recall = recall
        self._identity = Identity()
        self._judged: dict[str, str | int | float | bool] = {}
        self._learner = Learner(name="unnamed")
        self._coupled: bool | None = None
        self._graph_sizes: tuple[int, ...] = ()
        self._recent: deque[Sample] = deque(maxlen=SPLIT_KEPT)
        self._split: tuple[float, Profile, Split | None] | None = None
        self._fitting: list[Profile] = []
        """The built-in profiles of this identity: they are asked for with every sample."""
        self._drawn: tuple[Profile, tuple[float, float], tuple[CurvePoint, ...]] | None = None
        """The curve that was drawn last."""
        self.refused: tuple[str, ...] = ()
        """Why the given profile is not used, in words."""

    @property
    def learner(self) -> Learner:
        """What is being learned of this service."""
        return self._learner

    @property
    def identity(self) -> Identity:
        """Whose service this is, as far as it is known."""
        return self._identity

    def identify(self, server: ServerView) -> bool:
        """Takes what is known of the service; True when it turns out to be another one than before."""
        gpus: Iterable[str] = [server.gpu_name] * server.gpu_count if server.gpu_name and server.gpu_count else ()
        identity = identity_of(
            server.arguments, gpus=gpus, tree_budget=server.tree_budget, block_size=server.block_size
        )
        self._judged = judged_of(server.arguments, server.version)
        coupled = server.arguments.get("enable_dp_attention")
        self._coupled = coupled if isinstance(coupled, bool) else None
        if identity == self._identity:
            return False
        self.interrupt()
        self._identity = identity
        self._fitting = [one for one in self._built_in if identity.model is not None and not one.matches(identity)]
        self.refused = ()
        if self._given is not None:
            differences = self._given.matches(identity)
            self.refused = tuple(difference.sentence() for difference in differences)
        self._graph_sizes = server.graph_sizes
        self._learner = self._learner_of(identity)
        return True

    def _learner_of(self, identity: Identity) -> Learner:
        """What was learned of this service: what was kept of it, else what this watch has, else nothing yet.

        What becomes known late (the GPUs, when NVML answers) contradicts nothing that was learned before.
        """
        here = joined(self._learner.identity, identity)
        if here is not None and here == self._learner.identity:
            return self._learner
        recalled = self._recall(here or identity) if self._recall is not None else None
        found = recalled if recalled is not None else self._learner if here is not None else None
        if found is None:
            return self._fresh()
        full = joined(found.identity, identity)
        if full is not None and full != found.identity:
            found.identify(key_of(full), full)
        return found

    def relearn(self) -> None:
        """Forgets what was learned of this service and begins anew."""
        self._learner = self._fresh()

    def _fresh(self) -> Learner:
        return Learner(
            name=key_of(self._identity) if self._identity.model is not None else "unnamed",
            identity=self._identity,
            judged=dict(self._judged),
            graph_sizes=self._graph_sizes,
            coupled=self._coupled,
        )

    def see(self, sample: Sample, *, suspicious: bool) -> bool:
        """Takes a sample to learn from; True when what has been learned should be saved."""
        if sample.clean and (not self._recent or sample.at - self._recent[-1].at >= SPLIT_SECONDS):
            self._recent.append(sample)
        return self._learner.see(sample, suspicious)

    def doubt(self, since: float) -> bool:
        """The accept lengths after this time are no text to learn from; True when that should be saved."""
        return self._learner.doubt(since)

    def interrupt(self) -> None:
        """A restart: what was measured before says nothing about how steps differ from the model now."""
        self._recent.clear()
        self._split = None

    def split_at(self, now: float, profile: Profile | None) -> Split | None:
        """How the steps of the last minutes differ from the model, offset and slope; worked out now and then only."""
        if profile is None:
            return None
        known = self._split
        if known is None or known[1] is not profile or now - known[0] >= SPLIT_AGE_SECONDS:
            while self._recent and self._recent[0].at < now - SPLIT_WINDOW_SECONDS:
                self._recent.popleft()
            known = self._split = (now, profile, split_unexplained(profile, tuple(self._recent)))
        return known[2]

    def profiles(self) -> list[Profile]:
        """The profiles that may speak for this service, in order of precedence."""
        found: list[Profile] = []
        if self._given is not None and not self.refused:
            found.append(self._given)
        if self._learner.profile is not None:
            found.append(self._learner.profile)
        return found + self._fitting

    @property
    def coupled(self) -> bool | None:
        """Whether DP ranks step together; None until the arguments are seen."""
        return self._coupled

    def calibrated(self) -> Profile | None:
        """The profile that may accuse: the given one, else what has been learned; None when neither is calibrated."""
        return next((profile for profile in self.profiles() if profile.calibrated), None)

    def profile_at(self, batch: float, total_context: float) -> Profile | None:
        """The profile that speaks for a load: the first that covers it, else the first that there is."""
        known = self.profiles()
        return next((profile for profile in known if profile.covers(batch, total_context)), known[0] if known else None)

    def load_of(self, samples: Sequence[Sample]) -> list[tuple[float, float] | None]:
        """Batch and total context that each sample's step had to carry: the largest among ranks that step together."""
        own = [
            (s.mean_batch or float(s.batch), float(s.total_context_tokens))
            if s.batch and s.total_context_tokens is not None
            else None
            for s in samples
        ]
        if self._coupled is False or len(samples) < 2:
            return list(own)
        known = [load for load in own if load is not None]
        if not known:
            return list(own)
        shared = (max(batch for batch, _ in known), max(total for _, total in known))
        return [shared if load is not None else None for load in own]

    def judge(self, samples: Sequence[Sample]) -> Judged:
        """Compares the newest samples of all live ranks with the model.

        Args:
            samples: one per busy rank, of one instant.
        """
        if not samples:
            return Judged(expected=None, ratio=None, profile=None, covered=False, reason="nothing runs")
        if any(sample.provenance == "metrics" for sample in samples):
            return self._nothing("only /metrics speaks of it, which times no step")
        loads = self.load_of(samples)
        first = next((load for load in loads if load is not None), None)
        if first is None:
            return self._nothing("the log does not tell the context of the running requests")
        profile = self.profile_at(*first)
        if profile is None:
            reason = self._learner.reason(max(1, round(first[0])), first[1])
            return self._nothing(reason)
        rate = low = high = step = 0.0
        shortest = float("inf")
        measured: float | None = 0.0
        covered = True
        for sample, load in zip(samples, loads, strict=True):
            if load is None or sample.batch is None or sample.total_context_tokens is None:
                return self._nothing("the log does not tell the context of all running requests")
            found = expected_now(
                profile,
                batch=sample.batch,
                total_context=sample.total_context_tokens,
                accept_length=ONE_TOKEN if sample.accept_length is None else sample.accept_length,
                shared=load,
            )
            scale = sample.mean_batch / sample.batch if sample.mean_batch else 1.0
            rate, low, high = rate + scale * found.tokens_per_second, low + scale * found.low, high + scale * found.high
            step, shortest = max(step, found.step_seconds), min(shortest, found.step_seconds)
            covered = covered and not found.extrapolated
            throughput = sample.throughput
            measured = None if measured is None or throughput is None else measured + throughput
        expected = Expected(
            profile=profile.name,
            tokens_per_second=rate,
            low=low,
            high=high,
            step_seconds=step,
            extrapolated=not covered,
        )
        reason = "" if covered else self._outside(profile, first)
        return Judged(
            expected=expected,
            ratio=measured / rate if measured is not None and rate > 0 else None,
            profile=profile,
            covered=covered,
            reason=reason,
            load=max(load for load in loads if load is not None),
            apart=step > APART * shortest,
        )

    def _nothing(self, reason: str) -> Judged:
        if self.refused:
            reason = f"the given profile is of another service ({self.refused[0]}); {reason}"
        return Judged(expected=None, ratio=None, profile=None, covered=False, reason=reason)

    def _outside(self, profile: Profile, load: tuple[float, float]) -> str:
        if profile is self._learner.profile:
            return f"outside evidence: {self._learner.reason(max(1, round(load[0])), load[1])}"
        return f"outside the evidence of {profile.name}"

    def model(self, now: Now, judged: Judged) -> ModelView | None:
        """The model in force as it is shown, its curve at the present batch."""
        profile = judged.profile
        if profile is None:
            return None
        batch, total = judged.load or (float(now.batch or 1), float(now.total_context_tokens or 0))
        reach = max([total, *(region.total_context[1] for region in profile.evidence.regions)])
        accept = profile.accept_curve(OVERALL)
        point = accept.at(now.context_tokens) if accept is not None and now.context_tokens else None
        learned = profile is self._learner.profile
        differences = [] if learned else [d.sentence() for d in profile.matches(self._identity, self._judged)]
        return ModelView(
            profile=profile.name,
            calibrated=profile.calibrated,
            learned=learned,
            samples=profile.evidence.samples,
            settled=self._learner.coverage().settled if learned else 0,
            fit_error=profile.fit_error,
            batch=max(1, round(batch)),
            curve=self._curve(profile, batch, reach),
            accept_low=point.p10 if point is not None else None,
            accept_median=point.p50 if point is not None else None,
            accept_high=point.p90 if point is not None else None,
            differences=tuple(differences),
        )

    def _curve(self, profile: Profile, batch: float, reach: float) -> tuple[CurvePoint, ...]:
        """The model's curve at a batch, drawn again only when one of these changes."""
        if self._drawn is not None and self._drawn[0] is profile and self._drawn[1] == (batch, reach):
            return self._drawn[2]
        band = profile.band()
        curve = []
        for i in range(CURVE_POINTS):
            at = reach * CURVE_REACH * i / (CURVE_POINTS - 1)
            step = profile.step_time.seconds(batch, at)
            curve.append(
                CurvePoint(
                    total_context_tokens=at,
                    step_seconds=step,
                    low=step / band.high,
                    high=step / band.low,
                    covered=profile.covers(batch, at),
                )
            )
        self._drawn = (profile, (batch, reach), tuple(curve))
        return self._drawn[2]


def reference_view(profile: Profile | None) -> ReferenceView | None:
    """The remembered conditions of a profile, its first reference."""
    if profile is None or not profile.references:
        return None
    reference = profile.references[0]
    return ReferenceView(
        label=reference.label,
        tokens_per_second=reference.tokens_per_second,
        context_tokens=reference.context,
        batch=reference.batch,
        accept_length=reference.accept,
        inferred=reference.inferred,
    )


def factor_view(
    profile: Profile | None, now: Now, split: Split | None = None, shared: tuple[float, float] | None = None
) -> FactorView | None:
    """Measured over reference at this instant, split; None without a reference or without a reading.

    Args:
        profile: the model.
        now: the reading.
        split: how recent steps differ from the model, where enough contexts were seen to tell.
        shared: batch and total context of the step, where several ranks step together; their number is part of the
            factor `batch`.
    """
    if profile is None or not profile.references:
        return None
    if now.throughput is None or not now.batch or now.context_tokens is None:
        return None
    batch, context = now.batch, now.context_tokens
    if shared is not None and shared[0] >= 1:
        batch, context = round(shared[0]), shared[1] / shared[0]
    ranks = now.batch / batch
    load = Load(batch=batch, begin_context=context, end_context=context, accept_length=now.accept_length)
    factors: Factors = factor_split(profile, profile.references[0], load, now.throughput / ranks, split=split)
    return FactorView(
        accept_length=factors.accept_length,
        context=factors.context,
        batch=None if factors.batch is None else factors.batch * ranks,
        idle=factors.idle,
        unexplained=factors.unexplained,
        unexplained_offset=factors.unexplained_offset,
        unexplained_slope=factors.unexplained_slope,
    )

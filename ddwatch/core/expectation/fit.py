"""One fitter for `ddwatch fit` and for learning while running: clean samples in, a profile or a refusal out."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ddwatch.core.expectation.accept import curves
from ddwatch.core.expectation.identity import Identity, Scalar
from ddwatch.core.expectation.profile import Evidence, Profile, Reference, Residuals
from ddwatch.core.expectation.quantiles import middle
from ddwatch.core.expectation.retention import Coupling, Observation, Pairs, Retention, spans
from ddwatch.core.expectation.step_fit import fit_step_time
from ddwatch.core.expectation.windows import Windows
from ddwatch.core.expectation.wording import short
from ddwatch.core.snapshot import Sample

NEEDED = 30
"""Clean samples without which nothing is fitted."""
TRUSTED_ERROR = 0.1
"""A curve that misses its own evidence by more than this may explain, but must not accuse."""
FASTEST_SHARE = 0.1
"""The reference of a fitted profile is the middle of the fastest tenth of the windows seen at the smallest batch."""


class Refusal(Struct, frozen=True):
    """Why nothing was fitted."""

    sentence: str


class Gathering:
    """Clean samples of one setup, bounded, with a count of what was left out and why."""

    def __init__(self, coupled: bool | None = None, interval: int | None = None) -> None:
        self.kept = Retention()
        self.windows = Windows(interval)
        """The same over some forty steps each: what accept lengths are taken from."""
        self.samples = 0
        """All that were seen."""
        self.clean = 0
        self.flags: dict[str, int] = {}
        """How often each flag kept a sample out."""
        self._coupled = coupled
        self._coupling = Coupling(coupled)
        self._pairs = Pairs()

    def see(self, sample: Sample, text_class: str | None = None) -> None:
        """Takes the next sample of the log."""
        self.samples += 1
        key = (sample.engine, sample.dp_rank)
        item = self._coupling.observation(sample, text_class)
        if item is None:
            self._pairs.interrupt(key)
            self.windows.interrupt(key)
            for flag in sample.flags or ("incomplete",):
                self.flags[flag] = self.flags.get(flag, 0) + 1
            return
        self.clean += 1
        self.kept.add(item)
        self._pairs.see(key, item)
        self.windows.see(key, item)

    def cut(self) -> None:
        """What comes next does not follow what came before: another file, or a restart."""
        self._coupling = Coupling(self._coupled)
        self._pairs.forget()
        self.windows.forget()

    def observations(self) -> list[Observation]:
        """What is kept, bucket by bucket."""
        return list(self.kept)

    def pairs(self) -> list[tuple[Observation, Observation]]:
        """Consecutive observations, for the autocorrelation."""
        return self._pairs.pairs()


def thin(observations: Sequence[Observation], samples: int, flags: Mapping[str, int]) -> Refusal | None:
    """The refusal that too little evidence deserves; None when there is enough."""
    if len(observations) >= NEEDED:
        return None
    if not observations:
        reasons = ", ".join(f"{name} {count}" for name, count in sorted(flags.items(), key=lambda item: -item[1]))
        why = f" ({reasons})" if reasons else ""
        lines = "no decode line was found" if samples == 0 else f"0 clean samples among {samples} decode lines{why}"
        return Refusal(f"{lines}; need {NEEDED}")
    low, high, _, _ = spans(observations)
    count = len(observations)
    noun = "sample" if count == 1 else "samples"
    where = f"at {short(low)} tokens" if short(low) == short(high) else f"between {short(low)} and {short(high)} tokens"
    return Refusal(f"{count} clean {noun} {where}; need {NEEDED}")


def accept_points(windows: Iterable[Observation]) -> list[tuple[float, float, str | None]]:
    """Context of one request, accept length and class of each window that tells them."""
    return [
        (item.context_tokens, item.accept_length, item.text_class)
        for item in windows
        if item.accept_length is not None and item.context_tokens is not None
    ]


def remembered(windows: Sequence[Observation]) -> Reference | None:
    """The fastest tenth of the windows at the smallest usual batch, as conditions to compare with."""
    told = [item for item in windows if item.accept_length is not None]
    counts: dict[int, int] = {}
    for item in told:
        counts[item.batch] = counts.get(item.batch, 0) + 1
    usual = [batch for batch, count in counts.items() if count >= NEEDED]
    if not usual:
        return None
    batch = min(usual)
    rated = sorted(
        (
            (item.batch * item.accept_length / item.step_seconds, item.total_context / batch, item.accept_length)
            for item in told
            if item.batch == batch and item.accept_length is not None
        ),
    )
    fastest = rated[-max(3, round(len(rated) * FASTEST_SHARE)) :]
    return Reference(
        label=f"fastest tenth of what was seen at batch {batch}",
        context=middle(context for _, context, _ in fastest),
        batch=batch,
        accept=middle(accept for _, _, accept in fastest),
        tokens_per_second=middle(rate for rate, _, _ in fastest),
        inferred=True,
    )


def fit_profile(
    observations: Sequence[Observation],
    *,
    name: str,
    samples: int,
    flags: Mapping[str, int] | None = None,
    pairs: Sequence[tuple[Observation, Observation]] = (),
    graph_sizes: Sequence[int] = (),
    identity: Identity | None = None,
    judged: Mapping[str, Scalar] | None = None,
    provenance: str = "log",
    source: str | None = None,
    created: str | None = None,
    windows: Sequence[Observation] = (),
) -> Profile | Refusal:
    """Fits a profile, or says why not.

    Args:
        observations: clean ones, all of one judged setup.
        name: what the profile shall be called.
        samples: how many samples, clean or not, they were chosen from.
        flags: what kept the others out.
        pairs: consecutive observations, for the autocorrelation.
        graph_sizes: captured batch sizes, where known.
        identity: what service this is.
        judged: its setup.
        provenance: where the samples are from.
        source: the file or service.
        created: when, ISO 8601 with offset.
        windows: means over some forty steps each, for accept lengths and the reference.
    """
    refusal = thin(observations, samples, flags or {})
    if refusal is not None:
        return refusal
    fit = fit_step_time(observations, graph_sizes, pairs)
    if not fit.regions:
        low, high, first, last = spans(observations)
        return Refusal(
            f"{len(observations)} clean samples lie too far apart (batch {first} to {last}, "
            f"{short(low)} to {short(high)} tokens): no batch has 12 of them near one context"
        )
    reference = remembered(windows)
    low, high, _, _ = spans(observations)
    trusted = fit.fit_error <= TRUSTED_ERROR
    return Profile(
        name=name,
        calibrated=trusted,
        note=None
        if trusted
        else f"The curve misses its own evidence by {fit.fit_error * 100:.0f} %: it explains, it never accuses.",
        identity=identity if identity is not None else Identity(),
        judged=dict(judged or {}),
        evidence=Evidence(
            samples=len(observations),
            contexts=(low, high),
            batches=tuple(sorted({item.batch for item in observations})),
            provenance=provenance,
            source=source,
            created=created,
            regions=fit.regions,
        ),
        step_time=fit.step_time,
        residuals=Residuals(**dict(zip(Residuals.__struct_fields__, _ordered(fit.residual_quantiles), strict=True))),
        lag1=fit.lag1,
        fit_error=fit.fit_error,
        accept=curves(accept_points(windows)),
        references=(reference,) if reference is not None else (),
    )


def _ordered(values: Sequence[float]) -> list[float]:
    """Quantiles that rounding errors cannot put out of order."""
    ordered: list[float] = []
    for value in values:
        ordered.append(max(value, ordered[-1]) if ordered else value)
    return ordered

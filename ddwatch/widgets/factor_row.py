"""Why the rate is not the remembered one: the factors between the two, in one line whose product is exact."""

from ddwatch.core.snapshot import FactorView, ModelView, ReferenceView, Snapshot
from ddwatch.widgets.figures import count, exact, factor, figure, tokens
from ddwatch.widgets.rows import Role, Row, Span, clean, fit, merged, width_of

ALIKE = 0.05
"""A factor nearer to 1 than this explains nothing and stays quiet."""
Part = tuple[str, float | None, str]
"""Name of a factor, its value, and what was and is: `7.40 → 2.90`."""


def parts_of(snapshot: Snapshot) -> list[Part]:
    """The factors in their fixed order; empty without a reference."""
    factors, reference, now = snapshot.factors, snapshot.reference, snapshot.now
    if reference is None or factors is None:
        return []
    parts = [
        ("accept", factors.accept_length, f"{figure(reference.accept_length)} → {figure(now.accept_length)}"),
        ("context", factors.context, f"{tokens(reference.context_tokens)} → {tokens(now.context_tokens)}"),
        ("batch", factors.batch, f"{count(reference.batch)} → {count(now.batch)}"),
    ]
    if factors.idle is not None:
        parts.append(("idle", factors.idle, ""))
    return [*parts, ("unexplained", factors.unexplained, split_words(factors))]


def split_words(factors: FactorView) -> str:
    """The two parts of what is unexplained, where they can be told apart."""
    if factors.unexplained_offset is None or factors.unexplained_slope is None:
        return ""
    return f"offset {factor(factors.unexplained_offset)}, slope {factor(factors.unexplained_slope)}"


def _row(rates: str, parts: list[Part], gap: str, indent: str, *, full: bool) -> Row:
    spans: list[Span] = [(indent, "text"), (rates, "strong")]
    for name, value, change in parts:
        quiet = value is None or abs(value - 1) < ALIKE
        look: Role = "label" if quiet else "strong"
        spans += [(gap, "text"), (f"{name} ", "label"), (factor(value), look)]
        if full and change:
            spans.append((f" ({change})", "label"))
    return merged(spans)


def factor_row(snapshot: Snapshot, width: int, indent: str = "   ") -> Row | None:
    """`138 → 32.2   accept ×0.39   context ×0.59 …` as full as `width` allows; None without factors.

    What stays out first: what was and is, then the gaps, then factors that change nothing.
    """
    parts = parts_of(snapshot)
    reference = snapshot.reference
    if reference is None:
        return None
    rates = f"{figure(reference.tokens_per_second)} → {figure(snapshot.now.throughput)}"
    if not parts:
        why = f"a mixed sample is not split ({', '.join(snapshot.now.flags)})" if snapshot.now.flags else "not split"
        return fit(((indent, "text"), (rates, "label"), ("   ", "text"), (why, "label")), width)
    rest = [("rest" if name == "unexplained" else name, value, change) for name, value, change in parts]
    telling = [each for each in rest if each[1] is None or abs(each[1] - 1) >= 0.005 or each[0] == "rest"]
    changes = [each if each[0] != "unexplained" else (*each[:2], "") for each in parts]
    split = [each if each[0] == "unexplained" else (*each[:2], "") for each in parts]
    # How the unexplained splits is worth more than what was and is, where there is something unexplained.
    unexplained = parts[-1][1]
    loud = unexplained is not None and abs(unexplained - 1) >= ALIKE and parts[-1][2]
    shapes = [
        _row(rates, parts, "   ", indent, full=True),
        *(_row(rates, each, "   ", indent, full=True) for each in ((split,) if loud else (changes, split))),
        _row(rates, parts, "   ", indent, full=False),
        _row(rates, parts, "  ", indent, full=False),
        _row(rates, rest, "  ", indent, full=False),
        _row(rates, telling, " ", indent, full=False),
    ]
    return next((row for row in shapes if width_of(row) <= width), shapes[-1])


def reference_words(reference: ReferenceView) -> str:
    """What the remembered rate is, and whether somebody said it or ddwatch inferred it."""
    words = f"{figure(reference.tokens_per_second)}, {clean(reference.label)}"
    return f"{words} (inferred)" if reference.inferred else words


def caveats(snapshot: Snapshot) -> list[str]:
    """Why the expectation is to be taken with care, in words; empty when it may judge.

    The verdict `learning` says by itself that the load lies outside the evidence.
    """
    model, expected = snapshot.model, snapshot.expected
    found = []
    if expected is not None and expected.extrapolated and snapshot.verdict.name != "learning":
        found.append("outside its evidence: a guess")
    if model is not None and not model.calibrated:
        found.append("not calibrated: explains, never accuses")
    return found


def model_words(model: ModelView) -> list[str]:
    """Whose model it is and what it rests on, in pieces."""
    samples = f"{exact(model.samples)} {'clean ' if model.calibrated else ''}samples"
    words = [f"learned here: {samples}" if model.learned else samples]
    if model.learned:
        words.append(f"{exact(model.settled)} {'cell' if model.settled == 1 else 'cells'} settled")
    if model.fit_error is not None:
        words.append(f"fit error {model.fit_error * 100:.1f} %")
    if not model.learned:
        words.append(f"profile {clean(model.profile)}")
    return words


def difference_words(model: ModelView) -> str:
    """In what the service differs from the profile's, the first in full and how many more."""
    if not model.differences:
        return ""
    more = len(model.differences) - 1
    return f"{clean(model.differences[0])}{f' · {more} more: x' if more else ''}"

"""What the verdict rests on, in full: its sentence, the factors with what was and is, the model, every difference."""

from collections.abc import Sequence

from ddwatch.core.snapshot import Frame, Snapshot
from ddwatch.widgets.engine import step_words
from ddwatch.widgets.factor_row import caveats, model_words, parts_of, reference_words, split_words
from ddwatch.widgets.figures import day_and_clock, factor, figure, milliseconds
from ddwatch.widgets.finding_rows import finding_rows, told
from ddwatch.widgets.gpu_words import normal_words
from ddwatch.widgets.listing import Listing
from ddwatch.widgets.rows import Role, Row, clean, wrapped
from ddwatch.widgets.verdict_block import verdict_words
from ddwatch.widgets.view import View

NAME = 15
"""Cells of the names at the left."""


def named(name: str, text: str, width: int, role: Role = "text") -> list[Row]:
    """A name and a text that is wrapped beside it, never cut."""
    lines = wrapped(text, max(8, width - NAME - 2), 99) or [""]
    return [((f" {name if place == 0 else '':<{NAME}}", "label"), (line, role)) for place, line in enumerate(lines)]


def verdict_rows(frame: Frame, view: View, width: int) -> list[Row]:
    """The verdict with its sentence, cause and next steps, and what else holds."""
    verdict = frame.snapshot.verdict
    rows: list[Row] = [(*verdict_words(verdict), (f"  since {day_and_clock(verdict.since, view.zone)}", "label"))]
    rows += named("because", clean(verdict.sentence), width, "strong")
    if verdict.cause:
        rows += named("likely", clean(verdict.cause), width)
    for place, step in enumerate(verdict.next_steps):
        rows += named("" if place else "next", clean(step), width)
    for note in frame.snapshot.notes:
        rows += named("also", clean(f"{note.name.replace('-', ' ')}: {note.sentence}"), width)
    return rows


def factor_rows(snapshot: Snapshot, width: int) -> list[Row]:
    """One factor per row with what was and what is; nothing without a reference."""
    reference, factors = snapshot.reference, snapshot.factors
    if reference is None:
        return []
    rows: list[Row] = [(), ((" against what is remembered", "label"),)]
    rows += named("from", reference_words(reference), width)
    if factors is None:
        why = ", ".join(snapshot.now.flags)
        return rows + named("factors", f"not split: {why} in this sample" if why else "not split", width)
    for name, value, change in parts_of(snapshot):
        if name == "unexplained":
            change = split_words(factors) or "what none of these tells"
        rows.append(((f" {name:<{NAME}}", "label"), (f"{factor(value):<8}", "strong"), (change, "text")))
    whole = f"{figure(reference.tokens_per_second)} → {figure(snapshot.now.throughput)} tok/s"
    now = snapshot.now.throughput
    product = factor(now / reference.tokens_per_second) if now is not None and reference.tokens_per_second else "–"
    rows.append(((f" {'together':<{NAME}}", "label"), (f"{product:<8}", "strong"), (whole, "text")))
    return rows


def expected_rows(snapshot: Snapshot, width: int) -> list[Row]:
    """What the model says now, in both quantities."""
    expected, now = snapshot.expected, snapshot.now
    if expected is None:
        return []
    rates = f"{figure(expected.tokens_per_second)} ({figure(expected.low)} … {figure(expected.high)})"
    words = "guessed" if expected.extrapolated else "expected"
    rows: list[Row] = [(), ((" measured against the model", "label"),)]
    rows += named("throughput", f"{figure(now.throughput)} tok/s, {words} {rates}", width)
    step = f"{milliseconds(now.step_seconds)} ms, {words} {milliseconds(expected.step_seconds)}"
    rows += named("step", f"{step} (span {now.span})", width)
    forward = snapshot.forward
    if forward is None or forward.forward_seconds is None:
        return rows
    return rows + named("of it", step_words(forward), width)


def model_rows(snapshot: Snapshot, width: int) -> list[Row]:
    """Whose model it is, what it rests on, and in what the service differs from it."""
    model = snapshot.model
    if model is None:
        words = "none for this service at this load" if snapshot.now.batch else "none is asked while nothing runs"
        return [(), *named("model", words, width)]
    rows: list[Row] = [(), ((" the model", "label"),), *named("profile", clean(model.profile), width)]
    for place, words in enumerate(caveats(snapshot)):
        rows += named("" if place else "with care", words, width, "strong")
    rows += named("rests on", " · ".join(model_words(model)[: None if model.learned else -1]), width)
    if model.accept_low is not None and model.accept_high is not None:
        learned = f"{figure(model.accept_low)} … {figure(model.accept_high)}, median {figure(model.accept_median)}"
        rows += named("accept length", f"{learned} at this context (10–90 %)", width)
    for place, difference in enumerate(model.differences):
        rows += named("" if place else "differs in", clean(difference), width)
    return rows


def hardware_rows(frame: Frame, view: View, width: int) -> list[Row]:
    """What is wrong with cards and host, whether it is the cause or not; nothing where nothing is read of them."""
    snapshot = frame.snapshot
    found = told(snapshot)
    if not snapshot.gpus and not found:
        return []
    rows: list[Row] = [(), ((" cards and host", "label"),)]
    if snapshot.gpus:
        rows += named("cards", normal_words(snapshot.gpus) + (": g shows them" if found else ""), width)
    for finding, more in found:
        rows += finding_rows(finding, snapshot.at, view.zone, width, more=more)
    return rows


class WhyListing(Listing):
    """The answer to `why`, as long as it is."""

    def title(self, frame: Frame | None, view: View) -> tuple[str, str]:
        """Says what it is."""
        return "why", "what the verdict rests on"

    def content(self, frame: Frame | None, view: View, width: int) -> Sequence[Row]:
        """Verdict, factors, expectation, cards and host, model."""
        if frame is None:
            return [(("   no data yet", "label"),)]
        snapshot = frame.snapshot
        return [
            *verdict_rows(frame, view, width),
            *factor_rows(snapshot, width),
            *expected_rows(snapshot, width),
            *hardware_rows(frame, view, width),
            *model_rows(snapshot, width),
        ]

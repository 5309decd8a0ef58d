"""The reading in a handful of plain lines, for a terminal that is too small for panels."""

from collections.abc import Sequence

from ddwatch.core.snapshot import Frame
from ddwatch.widgets.alert_words import quiet_words
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.factor_row import factor_row
from ddwatch.widgets.figures import age, count, figure, milliseconds, percent, tokens
from ddwatch.widgets.gpu_words import SIGNS as GPU_SIGNS
from ddwatch.widgets.gpu_words import gravest, odd_words
from ddwatch.widgets.rows import Role, Row, Span, clean, merged
from ddwatch.widgets.server_line import algorithm_text, model_name
from ddwatch.widgets.verdict_block import verdict_words
from ddwatch.widgets.view import View


def brief_rows(frame: Frame, view: View, width: int = 60) -> list[Row]:
    """Verdict and rate; expected; factors; numbers; an odd GPU; sentence; server. The first line is honest alone."""
    snapshot = frame.snapshot
    now = snapshot.now
    first: list[Span] = []
    if view.dimmed():
        first.append((f"✗ {view.link} {age(view.silence)} ", "page-block" if view.link != "stale" else "unknown-block"))
        first.append((" ", "text"))
    if snapshot.simulated:
        first.append(("SIM ", "simulated"))
    rate: Role = "tainted" if view.dimmed() or now.flags else "measured"
    words = tuple((text.strip() + " ", role) for text, role in verdict_words(snapshot.verdict))
    first += (
        [(f"{figure(now.throughput)} tok/s ", rate), *words]
        if view.dimmed()
        else [
            *words,
            (f"{figure(now.throughput)} tok/s", rate),
        ]
    )
    rows = [merged(first)]
    expected = snapshot.expected
    if expected is not None:
        ratio = f", ratio {snapshot.ratio:.2f}" if snapshot.ratio is not None else ""
        name = "guessed" if expected.extrapolated else "expected"
        figures = f"{figure(expected.tokens_per_second)} ({figure(expected.low)}…{figure(expected.high)})"
        rows.append(((f"{name} {figures}{ratio}", "expected"),))
    factors = factor_row(snapshot, width, "")
    if factors is not None:
        rows.append(factors)
    rows.append(
        (
            (f"batch {count(now.batch)} context {tokens(now.context_tokens)} ", "text"),
            (f"accept {figure(now.accept_length)} step {milliseconds(now.step_seconds)} ms", "text"),
        )
    )
    odd = gravest(snapshot.gpus)
    if odd is not None:
        sign, role = GPU_SIGNS[odd.state]
        rows.append(((f"{sign} ", role), (odd_words(odd, snapshot.gpus), "strong")))
    if snapshot.model is not None and not snapshot.model.calibrated:
        rows.append((("not calibrated: explains, never accuses", "label"),))
    rows.append(
        (((f"queue {count(now.queued)} KV {percent(now.token_usage)} ", "text")), (_age_text(frame, view), "label"))
    )
    quiet = quiet_words(snapshot, view.zone)
    said = f"{quiet}: {snapshot.verdict.sentence}" if quiet else snapshot.verdict.sentence
    rows.append(((view.trouble if view.dimmed() and view.trouble else clean(said), "label"),))
    server = snapshot.server
    rows.append(((f"{model_name(server.model)} {algorithm_text(server)}".strip() or "server not named yet", "label"),))
    return rows


def _age_text(frame: Frame, view: View) -> str:
    old = view.age_of(frame, frame.snapshot.now.at)
    return "no reading yet" if old is None else f"{frame.snapshot.now.provenance or 'log'} {age(old)} ago"


class Brief(Drawn):
    """The whole screen of a small terminal."""

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """The lines that fit; the quit key where a line is left."""
        rows = brief_rows(frame, view, width)
        if height > len(rows):
            rows.append((("q quit · needs 60x16 for plots", "label"),))
        return rows[:height]

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """What it waits for."""
        return [((f"{view.link}: {view.trouble or 'waiting for data'}", "text"),), (("q quit", "label"),)]

"""What the engine's own mouths say, in words: its /metrics page, and its forward passes beside the step."""

from ddwatch.core.engine_view import EngineView, ForwardView
from ddwatch.core.snapshot import Snapshot
from ddwatch.widgets.figures import count, exact, figure, milliseconds, percent, tokens


def page_words(view: EngineView) -> str:
    """`running 3 · queue 0 · context 12.4k in all · 412 tok/s ±8 % · graphs 100 %`; what is not told is left out."""
    told = []
    if view.running is not None:
        told.append(f"running {count(view.running)}")
    if view.queued is not None:
        told.append(f"queue {count(view.queued)}")
    if view.total_context_tokens is not None:
        told.append(f"context {tokens(view.total_context_tokens)} in all")
    if view.decode_tokens_per_second is not None:
        told.append(f"{figure(view.decode_tokens_per_second)} tok/s ±{percent(view.error)}")
    if view.graph_ratio is not None:
        told.append(f"graphs {percent(view.graph_ratio)}")
    return " · ".join(told)


def forward_words(view: ForwardView) -> str:
    """`GPU 15.0 of 19.9 ms per step, waits 4.9 · prefill 3 % · 50 passes/s`; what is not told is left out."""
    told = []
    if view.resting:
        told.append("at rest")
    if view.forward_seconds is not None:
        told.append(step_words(view))
    if view.prefill_ratio is not None and not view.resting:
        told.append(f"prefill {percent(view.prefill_ratio)}")
    if view.passes_per_second is not None and not view.resting:
        told.append(f"{figure(view.passes_per_second)} passes/s")
    if view.ranks > 1:
        told.append(f"{view.ranks} ranks")
    if view.lost:
        told.append(f"{exact(view.lost)} lost")
    return " · ".join(told)


def step_words(view: ForwardView) -> str:
    """The GPU's part of a step; of the pass alone where no step time stands beside it."""
    if view.step_seconds is None or view.wait_seconds is None:
        return f"GPU {milliseconds(view.forward_seconds)} ms per pass"
    step, wait = milliseconds(view.step_seconds), milliseconds(view.wait_seconds)
    return f"GPU {milliseconds(view.forward_seconds)} of {step} ms per step, waits {wait}"


def words_of(source: str, snapshot: Snapshot) -> str:
    """What the source of this name says now, beyond that it speaks; empty for every other one."""
    if source == "metrics" and snapshot.engine is not None:
        return page_words(snapshot.engine)
    if source == "fpm" and snapshot.forward is not None:
        return forward_words(snapshot.forward)
    return ""

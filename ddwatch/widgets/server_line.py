"""The line at the top: which server this is, and whether what is shown is the present."""

from collections.abc import Sequence
from typing import ClassVar

from ddwatch.core.snapshot import Frame, ServerView
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import age, clock, duration
from ddwatch.widgets.rows import Role, Row, Span, clean, fit, merged, spread, width_of
from ddwatch.widgets.view import View


def model_name(model: str | None) -> str:
    """The last part of a model's path or repository name."""
    if not model:
        return ""
    return clean(model.rstrip("/").rsplit("/", 1)[-1])


def algorithm_text(server: ServerView) -> str:
    """`DDTREE budget 32`, as far as it is known."""
    words = [clean(server.algorithm or "")]
    if server.tree_budget is not None:
        words.append(f"budget {server.tree_budget}")
    elif server.block_size is not None:
        words.append(f"block {server.block_size}")
    return " ".join(word for word in words if word)


def parallel_text(server: ServerView) -> str:
    """`TP8 DP8`: the ways of parallelism that are more than one."""
    ways = (("TP", server.tp), ("DP", server.dp), ("PP", server.pp), ("EP", server.ep))
    return " ".join(f"{name}{ranks}" for name, ranks in ways if ranks is not None and (ranks > 1 or name == "TP"))


def server_parts(frame: Frame) -> list[tuple[int, str]]:
    """What is known of the server as (worth, text) in order of place; the least worth gives way first."""
    server = frame.snapshot.server
    parts = [
        (9, model_name(server.model)),
        (8, algorithm_text(server)),
        (7, parallel_text(server)),
        (5, clean(server.address or "")),
    ]
    if server.ready_at is not None and server.state == "ready":
        parts.append((6, f"up {duration(frame.snapshot.at - server.ready_at)}"))
    elif server.state not in ("unknown", "ready"):
        parts.append((9, server.state))
    known = [(worth, text) for worth, text in parts if text]
    return known or [(9, "server not named yet")]


def link_spans(frame: Frame | None, view: View) -> Row:
    """Whether this is the present: live, late, lost, frozen or a replay."""
    spans: list[Span] = []
    if frame is not None and frame.snapshot.simulated:
        spans += [(" SIMULATED ", "simulated"), (" ", "bar")]
    if view.past and view.replay is not None:
        state = "‖" if view.replay.paused else f"▶ ×{view.replay.speed:g}"
        shown = clock(frame.snapshot.at, view.zone) if frame is not None else ""
        spans.append((f" REPLAY {shown} ".replace("  ", " "), "unknown-block"))
        words: tuple[str, Role] = (f" {state} · b: live", "bar-strong")
    elif view.frozen and frame is not None:
        words = (f"‖ FROZEN {clock(frame.snapshot.at, view.zone)}", "bar-strong")
    elif view.replay is not None:
        state = "‖ paused" if view.replay.paused else f"▶ replay ×{view.replay.speed:g}"
        words = (state if view.link != "ended" else "‖ end of replay", "bar-strong")
    elif view.link == "live":
        words = ("● live", "bar")
    elif view.link == "waiting":
        words = ("○ waiting", "bar")
    elif view.link == "stale":
        words = (f"○ stale {age(view.silence)}", "bar-strong")
    elif view.link == "ended":
        words = ("✗ feed ended", "bar-strong")
    else:
        words = (f"✗ lost {age(view.silence)}", "bar-strong")
    return (*spans, words, (" ", "bar"))


def server_row(frame: Frame | None, view: View, width: int) -> Row:
    """The whole line at `width` cells."""
    right = link_spans(frame, view)
    parts = server_parts(frame) if frame is not None else [(9, clean(view.origin))]

    def left_of(shown: list[tuple[int, str]]) -> Row:
        spans: list[Span] = [(" ddwatch ", "bar-strong"), (" ", "bar")]
        for place, (_, text) in enumerate(shown):
            spans += [(" · ", "bar-label")] if place else []
            spans.append((text, "bar"))
        return merged(spans)

    while len(parts) > 1 and width_of(left_of(parts)) + width_of(right) + 1 > width:
        parts.remove(min(parts, key=lambda part: part[0]))
    return fit(spread(left_of(parts), right, width, "bar"), width, "bar")


class ServerLine(Drawn):
    """The line at the top."""

    FILL: ClassVar[Role] = "bar"

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """One row."""
        return [server_row(frame, view, width)]

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """One row without a server."""
        return [server_row(None, view, width)]

"""What may have made the steps slow: what is known to have begun with it, in order of likelihood, and what to do."""

from collections.abc import Sequence

from msgspec import Struct

from ddwatch.core.snapshot import ServerView

NEAR_SECONDS = 120.0
"""What began within this time of the onset began with it."""


class Cause(Struct, frozen=True):
    """One candidate."""

    text: str
    next_step: str


class Facts(Struct, frozen=True, kw_only=True):
    """What is known beside the steps themselves."""

    server: ServerView
    graph_off_since: float | None = None
    """Since when captured graphs do not run, None while they do or the log does not say."""
    retracted_at: float | None = None
    """Newest KV retraction."""
    hardware: tuple[tuple[float, str, str], ...] = ()
    """Findings about cards or host: since when, what, and what to do."""
    changed_arguments: str | None = None
    """What the last restart changed, in words."""


NOTHING = Cause(
    "nothing found that began with it",
    "compare before and after: ddwatch compare LOG --at TIME; a restart clears what is latched in the process",
)


def causes(since: float, facts: Facts) -> tuple[Cause, ...]:
    """Candidates in order of likelihood; never empty.

    Args:
        since: onset of the slow steps, seconds since the epoch.
        facts: what else is known.
    """
    found = list(_hardware(since, facts.hardware))
    if facts.graph_off_since is not None and abs(facts.graph_off_since - since) <= NEAR_SECONDS:
        found.append(
            Cause(
                "CUDA graph is off at this batch", "check --cuda-graph-max-bs against the batch, and the start-up log"
            )
        )
    if facts.retracted_at is not None and abs(facts.retracted_at - since) <= NEAR_SECONDS:
        found.append(
            Cause(
                "the KV pool was full and requests were sent back",
                "lower --max-running-requests, or raise --mem-fraction-static",
            )
        )
    started = facts.server.started_at
    if started is not None and abs(started - since) <= NEAR_SECONDS:
        what = facts.changed_arguments
        found.append(
            Cause(
                f"it is slow since the restart ({what})" if what else "it is slow since the restart",
                "ddwatch compare LOG shows the changed arguments and the step time at equal batch and context",
            )
        )
    return tuple(found) or (NOTHING,)


def _hardware(since: float, findings: Sequence[tuple[float, str, str]]) -> list[Cause]:
    near = [one for one in findings if abs(one[0] - since) <= NEAR_SECONDS]
    return [Cause(text, step) for _, text, step in near]

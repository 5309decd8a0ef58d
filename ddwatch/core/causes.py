"""What may have made the steps slow: what is known to have begun with it, in order of likelihood, and what to do."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from msgspec import Struct
from msgspec.structs import replace

from ddwatch.core.durations import in_words
from ddwatch.core.snapshot import ServerView
from ddwatch.core.waiting import Wait, waiting

NEAR_SECONDS = 120.0
"""What began within this time of the onset began with it."""
RECOVERY_LINES = 10
"""Clean lines after a full KV pool, from which steps that are still slow have not recovered."""
HEALTHY_LINES = 10
"""Clean lines at the expected speed after a start, from which what comes later did not begin with it."""
PREFILL_SHARE = 0.3
"""Share of the newest windows with prefill in them, from which it is a candidate ..."""
PREFILL_RISE = 1.5
"""... if it was so many times smaller before."""
EARLIEST_STAMP = 946_684_800.0
"""A time before the year 2000 was counted, because the log tells none."""

Evidence = Mapping[str, float | int | str | None]


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
    fatal: tuple[tuple[float, str, str], ...] = ()
    """Findings about cards that an engine does not survive: since when, what, and what to do."""
    waits: tuple[Wait, ...] = ()
    """Steps beside their forward passes, oldest first; empty where no passes are heard."""
    changed_arguments: str | None = None
    """What the last restart changed, in words."""


NOTHING = Cause(
    "nothing found that began with it",
    "compare before and after: ddwatch compare LOG --at TIME; a restart clears what is latched in the process",
)


PAUSE_NEXT = "nvidia-smi -q -d PERFORMANCE,CLOCK,PCIE under load tells what has not come back from rest"
PREFILL_NEXT = "lower --chunked-prefill-size, or keep long prompts off this instance"


def causes(since: float, facts: Facts, evidence: Evidence) -> tuple[Cause, ...]:
    """Candidates for slow steps in order of likelihood; never empty.

    Args:
        since: onset of the slow steps, seconds since the epoch.
        facts: what else is known.
        evidence: of the suspicion: the form of the excess, the lines it rests on and those that came before it.
    """
    found = [Cause(text, step) for at, text, step in facts.hardware if _near(at, since)]
    if _near(facts.graph_off_since, since):
        found.append(
            Cause(
                "CUDA graph is off at this batch", "check --cuda-graph-max-bs against the batch, and the start-up log"
            )
        )
    if facts.retracted_at is not None and _near(facts.retracted_at, since):
        found.append(_retracted(facts.retracted_at - since, evidence))
    factor = evidence.get("factor")
    waited = waiting(since, facts.waits, factor if isinstance(factor, float) else None)
    if waited is not None:
        found.append(Cause(*waited))
    before = evidence.get("lines_before")
    if not isinstance(before, int) or before <= HEALTHY_LINES:
        found += _restarted(
            since,
            facts,
            "it is slow",
            "ddwatch compare LOG shows the changed arguments and the step time at equal batch and context",
        )
    pause = evidence.get("pause_seconds")
    if isinstance(pause, float):
        found.append(Cause(f"it is slow since a pause of {in_words(pause)}", PAUSE_NEXT))
    if evidence.get("form") == "batch":
        found.append(
            Cause(
                "it grows with the batch: more requests cost more than they did",
                "check --cuda-graph-max-bs and --max-running-requests against the batch",
            )
        )
    share, usual = evidence.get("prefill_share"), evidence.get("usual_prefill_share")
    if isinstance(share, float) and isinstance(usual, float) and share >= max(PREFILL_SHARE, PREFILL_RISE * usual):
        text = f"prefill stands in {share * 100:.0f} % of the newest windows, before in {usual * 100:.0f} %"
        found.append(Cause(text, PREFILL_NEXT))
    return tuple(found) or (_nothing(since),)


def accept_causes(since: float, facts: Facts, evidence: Evidence) -> tuple[Cause, ...]:
    """Candidates for a low accept length in order of likelihood; empty when nothing is known to have begun with it.

    Args:
        since: onset, seconds since the epoch.
        facts: what else is known.
        evidence: of the suspicion: what a prefix cache restored before it.
    """
    found = _restarted(
        since,
        facts,
        "it is low",
        "check the drafter's start-up lines: backend fallback, block size mismatch",
    )
    restored, at = evidence.get("restored_tokens"), evidence.get("restored_at")
    if isinstance(restored, int) and isinstance(at, float) and _near(at, since):
        found.append(
            Cause(
                f"a prefix-cache hit restored {restored} tokens that the drafter has not seen",
                "compare with a request that hits no prefix (another first sentence): does the accept length return?",
            )
        )
    return tuple(found)


def ended_by(since: float, facts: Facts) -> tuple[Cause, ...]:
    """What may have ended the engine, or stopped it, at a time; empty when nothing is known."""
    return tuple(Cause(text, step) for at, text, step in facts.fatal if _near(at, since))


def _nothing(since: float) -> Cause:
    """No cause, and the command that compares before and after with its moment in it."""
    if since < EARLIEST_STAMP:
        return NOTHING
    moment = datetime.fromtimestamp(since, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return replace(NOTHING, next_step=NOTHING.next_step.replace("TIME", moment))


def _near(at: float | None, since: float) -> bool:
    return at is not None and abs(at - since) <= NEAR_SECONDS


def _retracted(after: float, evidence: Evidence) -> Cause:
    """A full KV pool, so many seconds after the onset."""
    when = f"{in_words(abs(after))} {'after' if after > 0.0 else 'before'} the first slow step"
    lines = evidence.get("lines")
    still = f"; not recovered in {lines} clean lines" if isinstance(lines, int) and lines >= RECOVERY_LINES else ""
    return Cause(
        f"the KV pool was full and requests were sent back, {when}{still}",
        "lower --max-running-requests, or raise --mem-fraction-static",
    )


def _restarted(since: float, facts: Facts, text: str, step: str) -> list[Cause]:
    if not _near(facts.server.started_at, since):
        return []
    what = facts.changed_arguments
    since_then = f"{text} since the {'restart' if facts.server.restarts else 'start'}"
    return [Cause(f"{since_then} ({what})" if what else since_then, step)]


def words(found: Sequence[Cause]) -> tuple[str | None, tuple[str, ...]]:
    """Causes as a verdict carries them: one phrase, and what to do about each."""
    return "; ".join(cause.text for cause in found) or None, tuple(dict.fromkeys(cause.next_step for cause in found))

"""What `ddwatch compare` prints: the table with its sentence, and the JSON document."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from msgspec import Struct

from ddwatch.core.comparison.epochs import Epoch, changed_words
from ddwatch.core.comparison.matching import CellMatch, Interval, Matched
from ddwatch.core.comparison.outcome import Comparison, Figures
from ddwatch.core.comparison.words import factors, percent, sentence
from ddwatch.core.expectation.wording import factor, milliseconds, range_of, rate, short
from ddwatch.core.wire import iso

SCHEMA = "ddwatch.compare/1"
CHANGES_SHOWN = 12
CELLS_SHOWN = 8
LONGEST_CHANGE = 76
"""Letters of a change that are shown; the JSON document has all of them."""
ABSENT = "–"


class Pair(Struct, frozen=True, kw_only=True):
    """What is compared, and the comparison."""

    before: Epoch
    after: Epoch
    number: int | None
    """1-based number of the restart; None for a moment."""
    restarts: int
    changes: tuple[str, ...] | None
    """What differs in the arguments, in words; None where that is not known."""
    found: Comparison

    def cause(self, zone: tzinfo | None) -> str:
        """What lies between both sides, as the subject of a sentence."""
        return "the restart" if self.number is not None else f"what happened at {clock(self.after.begins_at, zone)}"

    def sentence(self, zone: tzinfo | None = None) -> str:
        """What a person takes home."""
        return sentence(self.found, self.cause(zone), self.changes if self.number is not None else ())


def clock(at: float | None, zone: tzinfo | None) -> str:
    """A time of the log as its reader knows it."""
    return ABSENT if at is None else datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S")


def page(pair: Pair, zone: tzinfo | None) -> list[str]:
    """The table and its sentence."""
    at = clock(pair.after.begins_at, zone)
    head = at if pair.number is None else f"restart {pair.number} of {pair.restarts} at {at}"
    return [head, *_changes(pair), "", *_table(pair.found), "", pair.sentence(zone)]


def _changes(pair: Pair) -> list[str]:
    if pair.number is None:
        return []
    if pair.changes is None:
        return ["  the arguments of one side were not seen"]
    if not pair.changes:
        return ["  same arguments"]
    more = len(pair.changes) - CHANGES_SHOWN
    return [f"  {words[:LONGEST_CHANGE]}" for words in pair.changes[:CHANGES_SHOWN]] + (
        [f"  and {more} more"] if more > 0 else []
    )


def _table(found: Comparison) -> list[str]:
    rows: list[tuple[str, str, str, str]] = [("", "before", "after", "change")]
    steps, accepts = found.step_seconds, found.accept_length
    if steps is not None:
        rows.append(("at equal batch and context", "", "", ""))
        rows.append(_equal("step time ms", steps, milliseconds, reach))
        if accepts is not None:
            rows.append(_equal("accept length", accepts, lambda value: f"{value:.2f}", factor_reach))
        rows.append(("  samples", str(steps.before_samples), str(steps.after_samples), ""))
        rows += [_cell(cell) for cell in steps.cells[:CELLS_SHOWN]]
        if len(steps.cells) > CELLS_SHOWN:
            rows.append((f"  and {len(steps.cells) - CELLS_SHOWN} more loads", "", "", ""))
    old, new = found.before, found.after
    rows.append(("in all", "", "", ""))
    rows.append(_whole("tokens/s", old.tokens_per_second, new.tokens_per_second, rate))
    rows.append(_whole("accept length", old.accept_length, new.accept_length, lambda value: f"{value:.2f}"))
    rows.append(_whole("context", old.context_tokens, new.context_tokens, short))
    rows.append(_whole("batch", old.batch, new.batch, lambda value: f"{value:.3g}"))
    rows.append(_whole("step time ms", old.step_seconds, new.step_seconds, milliseconds))
    rows.append(("  clean samples", str(old.clean), str(new.clean), f"of {old.samples} and {new.samples}"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:<{widths[0]}}  {before:>{widths[1]}}  {after:>{widths[2]}}  {change}".rstrip()
        for name, before, after, change in rows
    ]
    if found.shares is not None:
        # Factors that would be shown as 1 say nothing.
        told = [f"{name} {factor(value)}" for name, value in factors(found.shares) if abs(value - 1.0) >= 0.005]
        told = [words.replace("accept length", "accept") for words in told]
        lines.append(f"  tokens/s {factor(found.shares.ratio)}" + (f" = {' · '.join(told)}" if told else ""))
    return lines


def reach(ratio: Interval) -> str:
    """A change of step time with its interval."""
    return f"{percent(ratio.value)}  ({percent(ratio.low).removesuffix(' %')} … {percent(ratio.high)})"


def factor_reach(ratio: Interval) -> str:
    """A change of accept length with its interval."""
    return f"{factor(ratio.value)}  ({factor(ratio.low)} … {factor(ratio.high)})"


def _equal(name: str, matched: Matched, shown: Any, change: Any) -> tuple[str, str, str, str]:
    return (f"  {name}", shown(matched.before), shown(matched.after), change(matched.ratio))


def _cell(cell: CellMatch) -> tuple[str, str, str, str]:
    first, last = cell.batches
    batches = f"{first}" if first == last else f"{first}-{last}"
    name = f"    batch {batches}, {range_of(*cell.total_context)} tokens"
    return (name, milliseconds(cell.before), milliseconds(cell.after), percent(cell.after / cell.before))


def _whole(name: str, old: float | None, new: float | None, shown: Any) -> tuple[str, str, str, str]:
    change = factor(new / old) if old and new is not None else ""
    before, after = (ABSENT if value is None else shown(value) for value in (old, new))
    return (f"  {name}", before, after, change)


def _side(side: Figures) -> dict[str, Any]:
    return {
        "from": None if side.first_at is None else iso(side.first_at),
        "to": None if side.last_at is None else iso(side.last_at),
        "samples": side.samples,
        "clean": side.clean,
        "tokens_per_second": side.tokens_per_second,
        "batch": side.batch,
        "accept_length": side.accept_length,
        "context_tokens": side.context_tokens,
        "step_seconds": side.step_seconds,
        "batches": None if side.batches is None else list(side.batches),
        "total_context_tokens": None if side.total_context_tokens is None else list(side.total_context_tokens),
    }


def _matched(matched: Matched | None) -> dict[str, Any] | None:
    if matched is None:
        return None
    return {
        "before": matched.before,
        "after": matched.after,
        "ratio": matched.ratio._asdict(),
        "difference": matched.difference._asdict(),
        "samples": {"before": matched.before_samples, "after": matched.after_samples},
    }


def _load(cell: CellMatch) -> dict[str, Any]:
    return {
        "batch": list(cell.batches),
        "total_context_tokens": list(cell.total_context),
        "before": cell.before,
        "after": cell.after,
        "samples": {"before": cell.before_samples, "after": cell.after_samples},
    }


def document(pair: Pair, numbered: Sequence[tuple[int, Epoch, Epoch]]) -> dict[str, Any]:
    """The JSON document.

    Args:
        pair: what was compared.
        numbered: number of each restart that is kept, with the stretches before and after it.
    """
    found = pair.found
    shares = found.shares
    return {
        "schema": SCHEMA,
        "cut": pair.after.cut,
        "at": None if pair.after.begins_at is None else iso(pair.after.begins_at),
        "restart": pair.number,
        "restarts": [
            {
                "number": number,
                "at": None if after.begins_at is None else iso(after.begins_at),
                "changes": _listed(changed_words(before.start, after.start)),
                "clean": {"before": before.side.clean, "after": after.side.clean},
            }
            for number, before, after in numbered
        ],
        "changes": _listed(pair.changes) if pair.number is not None else [],
        "outcome": found.outcome,
        "sentence": pair.sentence(),
        "reason": found.reason,
        "step_seconds": _matched(found.step_seconds),
        "accept_length": _matched(found.accept_length),
        "loads": [_load(cell) for cell in found.step_seconds.cells] if found.step_seconds is not None else [],
        "before": _side(found.before),
        "after": _side(found.after),
        "factors": None
        if shares is None
        else {
            "ratio": shares.ratio,
            "accept_length": shares.accept_length,
            "load": shares.load,
            "context": shares.context,
            "batch": shares.batch,
            "step_time": shares.step_time,
        },
    }


def _listed(changes: tuple[str, ...] | None) -> list[str] | None:
    return None if changes is None else list(changes)

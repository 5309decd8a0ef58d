"""What any command prints, line by line; when it has to be started again, what it repeats is not read twice."""

from collections.abc import Sequence

from ddwatch.core.records import Gap
from ddwatch_sidecar.sources.child import Pipe, ending
from ddwatch_sidecar.sources.child_lines import Moment, Trouble
from ddwatch_sidecar.sources.complaint import Complaint
from ddwatch_sidecar.sources.contract import Item, Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT
from ddwatch_sidecar.sources.overlap import Overlap

BURST_BYTES = 8 * 1024
"""What the busiest service prints between two polls is less; more is a past that is being handed over."""
CALM_POLLS = 2
"""Polls in a row with less than that end the past."""
QUIET_SECONDS = 15.0
"""A command that was silent for so long has no past to hand over."""
PAST_SECONDS = 30.0
"""A past is handed over in this time; what comes later counts as live whatever its amount."""


class Command:
    """See `Dialect`.

    The burst with which it begins is its past: old lines, on the first start, and lines that were read before, on all
    later ones.
    """

    longest = LINE_LIMIT
    pipes: frozenset[Pipe] = frozenset({"out"})
    stands: Trouble | None = None

    def __init__(self, words: Sequence[str], *, name: str) -> None:
        self._words = tuple(words)
        self._name = name
        self._program = words[0].rpartition("/")[2]
        self._overlap = Overlap()
        self._comparing = False
        self._past = True
        """Whether the burst at the beginning goes on."""
        self._calm = 0
        self._first_at: float | None = None
        self.subject = f"the output of {self._program}"

    def words(self) -> Sequence[str]:
        """See `Dialect`."""
        self._comparing = self._overlap.known
        self._past = True
        self._calm = 0
        self._first_at = None
        return self._words

    def out(self, line: Line, moment: Moment) -> list[Item]:
        """See `Dialect`."""
        if self._first_at is None:
            self._first_at = moment.now
            self._past = self._comparing or moment.now - moment.began < QUIET_SECONDS
        if self._comparing and line.whole:
            self._overlap.hold(line.data)
            return []
        if line.whole:
            self._overlap.passed(line.data)
        return [Line(line.data, None, not self._past, line.whole)]

    def err(self, line: Line, moment: Moment) -> list[Item] | None:
        """See `Dialect`."""
        return None

    def polled(self, size: int, moment: Moment) -> list[Item]:
        """See `Dialect`."""
        if not self._past or self._first_at is None:
            return []
        self._calm = self._calm + 1 if size < BURST_BYTES else 0
        if self._calm < CALM_POLLS and moment.now - self._first_at < PAST_SECONDS:
            return []
        self._past = False
        return self._settle(moment)

    def _settle(self, moment: Moment) -> list[Item]:
        """The burst is over: what of it is new."""
        if not self._comparing:
            return []
        self._comparing = False
        found = self._overlap.settle()
        if found.joined:
            return [Line(line, None) for line in found.fresh]
        if not found.fresh:
            return []
        detail = f"{self._program} was started again and what it printed in between is unknown"
        return [
            Gap(at=moment.now, source=self._name, reason="lost", detail=detail),
            *(Line(line, None, live=False) for line in found.fresh),
        ]

    def enough(self) -> bool:
        """See `Dialect`."""
        return False

    def silent(self, seconds: float, complaint: Complaint) -> Trouble | bool:
        """See `Dialect`."""
        return self._elsewhere(complaint) or True

    def _elsewhere(self, complaint: Complaint) -> Trouble | None:
        """The usual mistake: a log that goes to stderr."""
        if not complaint.log_like:
            return None
        return Trouble(f"{self._program} prints its log on stderr, which is not read: sh -c 'exec … 2>&1' makes it one")

    def ended(self, status: int | None, complaint: Complaint, moment: Moment) -> tuple[list[Item], Trouble | None]:
        """See `Dialect`."""
        items = self._settle(moment)
        trouble = None if self._overlap.known else self._elsewhere(complaint)
        words = complaint.after(f"{self._program} {ending(status)}")
        return items, trouble or Trouble(f"{words}; it is started again")

    def missing(self, sentence: str) -> Trouble:
        """See `Dialect`."""
        return Trouble(sentence)

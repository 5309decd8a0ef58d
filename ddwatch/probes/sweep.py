"""The sweep of `ddwatch calibrate`: which point to measure next, until all are known well enough or time is up."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from ddwatch.core.expectation.measured import (
    Measured,
    chord_errors,
    fit_points,
    half_width,
    step_spread,
)
from ddwatch.probes.isolation import Disturbed, Isolation

NARROW = 0.015
"""Half of the confidence interval of a step time, relative, from which a point is known well enough."""
FEWEST = 2
MOST = 12
"""Pairs per point at least and at most."""
USUAL_NOISE = 0.04
"""One step's relative scatter before the sweep has shown its own."""
STRAIGHT = 0.01
"""A stretch between two contexts may hide a bend of this size; larger ones are halved."""
MOST_ADDED = 12
"""Contexts that are added between those that were asked for."""
PATIENCE = 6
"""Pairs in a row that others disturbed, after which the sweep gives way."""

End = Literal["complete", "time", "disturbed"]


class Group(NamedTuple):
    """A place of the sweep."""

    batch: int
    context: int


class Progress(NamedTuple):
    """How far the sweep has come."""

    done: int
    """Pairs measured, of those that were wanted."""
    wanted: int
    """Pairs in all, as far as can be seen now."""
    seconds_left: float | None
    """Until it is complete or time is up, whichever comes first; None before anything has been measured."""
    label: str


class Sweep:
    """Measures groups in turn; classes of text take turns within a group."""

    def __init__(
        self,
        isolation: Isolation,
        *,
        contexts: Sequence[int],
        batches: Sequence[int],
        classes: Sequence[str],
        budget: float,
        clock: Callable[[], float],
        points: Iterable[Measured] = (),
        longest: int | None = None,
    ) -> None:
        """Prepares the sweep.

        Args:
            isolation: measures one point.
            contexts: of one request, ascending.
            batches: ascending.
            classes: kinds of text.
            budget: seconds of `clock` after which no further pair is begun.
            clock: seconds.
            points: what an earlier sweep has measured.
            longest: tokens that all requests together may hold; None for no limit.
        """
        self._isolation = isolation
        self._groups = [
            Group(batch, context)
            for batch in batches
            for context in contexts
            if longest is None or batch * (context + 300) <= longest
        ]
        self._first = min(batches)
        self._classes = tuple(classes)
        self._clock = clock
        self._end = clock() + budget
        self._costs: dict[Group, float] = {}
        self._added = 0
        self._spoilt: dict[Group, int] = {}
        """Pairs that came to nothing."""
        self.points: list[Measured] = list(points)
        self.last_disturbance: str | None = None
        known = {Group(point.batch, point.context_target) for point in self.points}
        wanted = {group.context for group in self._groups}
        self._groups += sorted(group for group in known if group.context not in wanted and group.batch in batches)

    def run(self, tell: Callable[[Progress], None], keep: Callable[[Measured], None]) -> End:
        """Measures until done; `keep` gets each point at once. Raises ProbeFailed when the server does not answer."""
        failures = 0
        while True:
            group = self._next()
            if group is None:
                return "complete" if not self._open() else "time"
            text_class = self._classes[self._count(group) % len(self._classes)]
            tell(self._progress(f"{group.context} tokens, batch {group.batch}, {text_class}"))
            begun = self._clock()
            try:
                point = self._isolation.point(text_class, group.context, group.batch)
            except Disturbed as disturbed:
                self._costs[group] = self._clock() - begun
                self._spoilt[group] = self._spoilt.get(group, 0) + 1
                if disturbed.others:
                    failures += 1
                    self.last_disturbance = disturbed.sentence
                    if failures >= PATIENCE:
                        return "disturbed"
                continue
            failures = 0
            self._costs[group] = self._clock() - begun
            self.points.append(point)
            keep(point)
            if not self._open() and self._added < MOST_ADDED:
                self._refine()

    def _of(self, group: Group) -> list[Measured]:
        return [one for one in self.points if (one.batch, one.context_target) == group]

    def _fewest(self) -> int:
        return max(FEWEST, len(self._classes))

    def _count(self, group: Group) -> int:
        return len(self._of(group))

    def _noise(self) -> float:
        if len(self.points) < 8:
            return USUAL_NOISE
        return step_spread(self.points, fit_points(self.points))

    def _open(self) -> list[Group]:
        noise = self._noise()
        found = []
        for group in self._groups:
            points = self._of(group)
            width = half_width(points, noise)
            enough = len(points) >= self._fewest() and width is not None and width <= NARROW
            if not enough and len(points) + self._spoilt.get(group, 0) < MOST:
                found.append(group)
        return found

    def _next(self) -> Group | None:
        """The open group with the fewest points that fits into the time left; shorter contexts first."""
        left = self._end - self._clock()
        for group in sorted(self._open(), key=lambda group: (self._count(group) + self._spoilt.get(group, 0), group)):
            if left > 0 and self._cost(group) <= left:
                return group
        return None

    def _cost(self, group: Group) -> float:
        """Seconds that one more pair will take: as before, or in proportion to the nearest group that is known."""
        if group in self._costs:
            return self._costs[group]
        known = [one for one in self._costs if one.batch <= group.batch]
        if not known:
            return 0.0
        nearest = min(known, key=lambda one: (abs(one.batch - group.batch), abs(one.context - group.context)))
        return self._costs[nearest] * max(1.0, group.context / nearest.context) * group.batch / nearest.batch

    def _progress(self, label: str) -> Progress:
        waiting = self._open()
        time_left = max(0.0, self._end - self._clock())
        needed = sum(self._cost(group) * max(1, self._fewest() - self._count(group)) for group in waiting)
        left = min(needed, time_left) if self._costs else None
        missing = sum(max(1, self._fewest() - self._count(group)) for group in waiting)
        return Progress(len(self.points), len(self.points) + missing, left, label)

    def _refine(self) -> None:
        """Adds the middle of the stretch that may hide the largest bend."""
        gaps = [
            (gap, low, high) for low, high, gap in chord_errors(self.points) if gap > STRAIGHT and high > low * 1.15
        ]
        for _, low, high in sorted(gaps, reverse=True):
            group = Group(self._first, round((low * high) ** 0.5))
            if all(abs(group.context - one.context) > 0.05 * one.context for one in self._groups):
                self._groups.append(group)
                self._added += 1
                return

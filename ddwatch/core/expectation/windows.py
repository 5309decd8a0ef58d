"""Averages accept length over some forty steps: a single step commits anything from 1 to the block size."""

from collections import OrderedDict

from ddwatch.core.expectation.retention import Observation, Retention

WINDOW_STEPS = 40
"""Steps that a window means over: SGLang's own interval between two decode lines, unless told otherwise."""
LOOKED_AT = 20
"""Lines from which it is seen whether each is a single step."""
WINDOWS_KEPT = 2048

RankKey = tuple[str | None, int | None]


class _Run:
    """Consecutive observations of one rank at one batch that will make a window."""

    __slots__ = ("accept", "count", "items", "step")

    def __init__(self) -> None:
        self.count = 0
        self.accept = 0.0
        self.step = 0.0
        self.items: list[Observation] = []


class Windows:
    """Turns observations into windows of about forty steps each, bounded, by context."""

    def __init__(self, interval: int | None = None) -> None:
        self.kept = Retention(WINDOWS_KEPT)
        self._interval = interval
        self._runs: OrderedDict[RankKey, _Run] = OrderedDict()
        self._looked = 0
        self._whole = 0

    def see(self, key: RankKey, item: Observation) -> Observation | None:
        """Takes a rank's next clean observation; returns the window that it completes."""
        if item.accept_length is None or item.own_batch is None:
            return None
        self._look(item.accept_length * item.own_batch)
        run = self._runs.pop(key, None)
        if run is None or run.items[0].own_batch != item.own_batch or run.items[0].text_class != item.text_class:
            run = _Run()
        self._runs[key] = run
        if len(self._runs) > 256:
            self._runs.popitem(last=False)
        run.items.append(item)
        run.count += 1
        run.accept += item.accept_length
        run.step += item.step_seconds
        if run.count < self.lines():
            return None
        del self._runs[key]
        window = self._window(run)
        self.kept.add(window)
        return window

    @staticmethod
    def _window(run: _Run) -> Observation:
        middle = run.items[len(run.items) // 2]
        return Observation(
            batch=middle.batch,
            total_context=middle.total_context,
            step_seconds=run.step / run.count,
            accept_length=run.accept / run.count,
            own_batch=middle.own_batch,
            context_tokens=middle.context_tokens,
            text_class=middle.text_class,
        )

    def interrupt(self, key: RankKey) -> None:
        """A contaminated line stands between: what was begun is given up."""
        self._runs.pop(key, None)

    def forget(self) -> None:
        """Gives up all that was begun."""
        self._runs.clear()

    def _look(self, tokens: float) -> None:
        if self._interval is None and self._looked < LOOKED_AT:
            self._looked += 1
            self._whole += abs(tokens - round(tokens)) < 0.011

    def lines(self) -> int:
        """Decode lines that make a window.

        Where the interval between lines is not known, lines that commit whole numbers of tokens are single steps.
        """
        if self._interval is not None:
            return max(1, round(WINDOW_STEPS / self._interval))
        return WINDOW_STEPS if self._whole >= 0.9 * max(1, self._looked) else 1

"""Keeps a bounded, fair choice of samples: steady traffic must not erase the contexts that were seen rarely."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import Generic, TypeVar

from msgspec import Struct

from ddwatch.core.snapshot import Sample

Bucket = tuple[int, int]
"""Index of the batch bucket and of the total-context bucket."""

BATCH_STEP = log(1.25)
CONTEXT_STEP = log(2.0) / 2.0
"""Buckets are 1.25x wide in batch and 1.41x wide in total context."""
LARGEST_SIZE = 4096
"""Observations held in all, some 600 kB."""
LARGEST_PAIRS = 1024


class Observation(Struct, frozen=True, kw_only=True, gc=False):
    """What the fit keeps of one clean sample."""

    batch: int
    total_context: float
    step_seconds: float
    accept_length: float | None = None
    throughput: float | None = None
    """As printed: its two decimals say how exact the step time is."""
    own_batch: int | None = None
    """The rank's own batch where the regressors are the largest of coupled ranks."""
    context_tokens: float | None = None
    """Mean of the rank's own requests."""
    text_class: str | None = None

    def rounding(self) -> float:
        """Relative standard deviation that two printed decimals alone put on the step time."""
        parts = [0.005 / value for value in (self.throughput, self.accept_length) if value is not None and value > 0]
        return float(sum(part * part / 3.0 for part in parts) ** 0.5)


def bucket(batch: float, total_context: float) -> Bucket:
    """The bucket of a load; batches up to 4 have one each."""
    return round(log(max(batch, 1.0)) / BATCH_STEP), round(log(max(total_context, 1.0)) / CONTEXT_STEP)


T = TypeVar("T")


class Thinned(Generic[T]):
    """A run of readings that never outgrows its size and stays spread evenly over its whole time.

    When full, every second one is dropped and from then on only every second newcomer is taken (then every fourth,
    …): no randomness, and no preference for old or new.
    """

    __slots__ = ("items", "stride", "waiting")

    def __init__(self) -> None:
        self.items: list[T] = []
        self.stride = 1
        self.waiting = 0

    def offer(self, item: T) -> bool:
        """Takes every `stride`-th reading; says whether this one was taken."""
        self.waiting += 1
        if self.waiting < self.stride:
            return False
        self.waiting = 0
        self.items.append(item)
        return True

    def halve(self) -> int:
        """Drops every second reading, doubles the stride; returns how many went."""
        before = len(self.items)
        del self.items[1::2]
        self.stride *= 2
        return before - len(self.items)


class Retention:
    """Observations by bucket; when all together are too many, the fullest bucket gives way, at last the newest."""

    def __init__(self, size: int = LARGEST_SIZE) -> None:
        self._size = size
        self._buckets: OrderedDict[Bucket, Thinned[Observation]] = OrderedDict()
        self._held = 0
        self.offered = 0
        """Observations that came in."""

    def add(self, item: Observation) -> None:
        """Takes an observation, and makes room for it if there is none."""
        self.offered += 1
        key = bucket(item.batch, item.total_context)
        thinned = self._buckets.get(key)
        if thinned is None:
            thinned = self._buckets[key] = Thinned()
        if thinned.offer(item):
            self._held += 1
        while self._held > self._size:
            fullest = max(self._buckets.values(), key=lambda one: len(one.items))
            before = len(fullest.items)
            if before < 2:
                self._held -= len(self._buckets.popitem()[1].items)
                continue
            fullest.halve()
            self._held -= before - len(fullest.items)

    def discard(self, items: Iterable[Observation]) -> int:
        """Gives up these very observations where they are kept; returns how many were."""
        unwanted = {id(item) for item in items}
        before = self._held
        for thinned in self._buckets.values():
            thinned.items = [item for item in thinned.items if id(item) not in unwanted]
        self._held = sum(len(thinned.items) for thinned in self._buckets.values())
        return before - self._held

    def __len__(self) -> int:
        return self._held

    def __iter__(self) -> Iterator[Observation]:
        for key in sorted(self._buckets):
            yield from self._buckets[key].items


class Pairs:
    """Consecutive observations of one rank at one batch, thinned over time: what the autocorrelation is made of."""

    def __init__(self, size: int = LARGEST_PAIRS) -> None:
        self._size = size
        self._first: Thinned[Observation] = Thinned()
        self._second: Thinned[Observation] = Thinned()
        self._last: OrderedDict[tuple[str | None, int | None], Observation] = OrderedDict()

    def see(self, key: tuple[str | None, int | None], item: Observation) -> None:
        """Takes a rank's next clean observation."""
        before = self._last.pop(key, None)
        self._last[key] = item
        if len(self._last) > 256:
            self._last.popitem(last=False)
        if before is None or before.batch != item.batch:
            return
        self._first.offer(before)
        self._second.offer(item)
        if len(self._first.items) > self._size:
            self._first.halve()
            self._second.halve()

    def interrupt(self, key: tuple[str | None, int | None]) -> None:
        """A contaminated sample stands between: what comes next does not follow what came before."""
        self._last.pop(key, None)

    def forget(self) -> None:
        """Nothing that comes next follows what came before."""
        self._last.clear()

    def restore(self, pairs: Sequence[tuple[Observation, Observation]]) -> None:
        """Takes over pairs that were kept before."""
        for before, item in pairs[: self._size]:
            self._first.offer(before)
            self._second.offer(item)

    def pairs(self) -> list[tuple[Observation, Observation]]:
        """Earlier and later observation of each pair."""
        return list(zip(self._first.items, self._second.items, strict=True))


COUPLED_SECONDS = 10.0
"""A rank that has said nothing for this long has nothing running and no part in the shared step."""


class Coupling:
    """Turns samples into observations; ranks that step together share the largest load among them."""

    def __init__(self, coupled: bool | None = None) -> None:
        self.coupled = coupled
        """Whether DP ranks step together (DP attention, expert parallelism); None takes it as yes."""
        self._newest: OrderedDict[tuple[str | None, int | None], Sample] = OrderedDict()

    def observation(self, sample: Sample, text_class: str | None = None) -> Observation | None:
        """The observation that a sample gives, None when it must not be fitted."""
        key = (sample.engine, sample.dp_rank)
        self._newest.pop(key, None)
        self._newest[key] = sample
        if len(self._newest) > 256:
            self._newest.popitem(last=False)
        batch, total, step = sample.batch, sample.total_context_tokens, sample.step_seconds
        if not sample.clean or sample.span != "step" or batch is None or total is None or step is None:
            return None
        if batch < 1 or total < 1 or not 0.0 < step < float("inf"):
            return None
        load_batch, load_total = self.load(sample)
        return Observation(
            batch=load_batch,
            total_context=float(load_total),
            step_seconds=step,
            accept_length=sample.accept_length,
            throughput=sample.throughput if sample.provenance == "log" else None,
            own_batch=batch,
            context_tokens=total / batch,
            text_class=text_class,
        )

    def sharing(self, sample: Sample) -> int:
        """How many ranks share this sample's step, itself among them."""
        if self.coupled is False or sample.dp_rank is None:
            return 1
        return sum(
            engine == sample.engine and sample.at - other.at <= COUPLED_SECONDS and bool(other.batch)
            for (engine, _), other in self._newest.items()
        )

    def load(self, sample: Sample) -> tuple[int, int]:
        """Batch and total context that this sample's step had to carry."""
        batch, total = sample.batch or 0, sample.total_context_tokens or 0
        if self.coupled is False or sample.dp_rank is None:
            return batch, total
        for (engine, _), other in self._newest.items():
            if engine == sample.engine and sample.at - other.at <= COUPLED_SECONDS:
                batch = max(batch, other.batch or 0)
                total = max(total, other.total_context_tokens or 0)
        return batch, total


def spans(observations: Sequence[Observation]) -> tuple[float, float, int, int]:
    """Smallest and largest total context, smallest and largest batch; raises ValueError on none."""
    totals = [item.total_context for item in observations]
    batches = [item.batch for item in observations]
    return min(totals), max(totals), min(batches), max(batches)

"""Learns a profile while the service runs, cell by cell; a cell that has seen enough is frozen for good.

A cell is a bucket of batch and total context. Its first forty clean, unsuspected samples settle it. The profile is
fitted from settled cells only, so it changes when a cell settles and never otherwise: a service that slows down
later cannot teach ddwatch that slow is normal.
"""

from collections import OrderedDict, deque
from math import exp

import msgspec
from msgspec import Struct

from ddwatch.core.expectation.accept import curves
from ddwatch.core.expectation.fit import Refusal, accept_points, fit_profile, remembered
from ddwatch.core.expectation.identity import Identity, Scalar
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.retention import CONTEXT_STEP, Bucket, Coupling, Observation, Pairs, bucket
from ddwatch.core.expectation.windows import Windows
from ddwatch.core.expectation.wording import short
from ddwatch.core.snapshot import Sample

SETTLING = 40
"""Clean samples that settle a cell."""
MOST_CELLS = 200
"""Cells that are kept: 8000 observations, about 1 MB and half a second per fit."""
ACCEPT_EVERY = 100
"""New windows after which the accept curves are drawn again; these go on learning, since text is never judged."""
LATELY = 256
"""Windows that can still be given up."""
LEARNER_SCHEMA = "ddwatch.learner/1"


class Coverage(Struct, frozen=True, kw_only=True):
    """How far learning has come."""

    samples: int
    """Clean ones that were learned from."""
    settled: int
    """Cells that are frozen."""
    open: int
    """Cells that wait for more."""
    total_context: tuple[float, float] | None
    """Smallest and largest total context of settled cells."""
    batches: tuple[int, ...]


class _Saved(Struct, frozen=True, kw_only=True):
    schema: str
    name: str
    identity: Identity
    judged: dict[str, Scalar]
    graph_sizes: tuple[int, ...]
    settled: list[Bucket]
    cells: list[tuple[Bucket, list[Observation]]]
    windows: list[Observation]
    pairs: list[tuple[Observation, Observation]]
    seen: int


class Learner:
    """Takes samples as they come and keeps the profile that they add up to."""

    def __init__(
        self,
        *,
        name: str,
        identity: Identity | None = None,
        judged: dict[str, Scalar] | None = None,
        graph_sizes: tuple[int, ...] = (),
        coupled: bool | None = None,
        interval: int | None = None,
        most_cells: int = MOST_CELLS,
    ) -> None:
        self.name = name
        self.identity = identity if identity is not None else Identity()
        self.judged = dict(judged or {})
        self.graph_sizes = graph_sizes
        self.profile: Profile | None = None
        """What has been learned; None until the first cell has settled."""
        self._coupling = Coupling(coupled)
        self._most_cells = most_cells
        self._pairs = Pairs()
        self._cells: dict[Bucket, list[Observation]] = {}
        self._settled: set[Bucket] = set()
        self._passed: OrderedDict[Bucket, int] = OrderedDict()
        """Samples that each open cell has let pass since it took one."""
        self._windows = Windows(interval)
        self._lately: deque[tuple[float, Observation]] = deque(maxlen=LATELY)
        """The newest windows, each with its time."""
        self._new_windows = 0
        self._seen = 0
        self._taken = 0
        self._total_context: tuple[float, float] | None = None
        self._batches: tuple[int, ...] = ()

    def see(self, sample: Sample, suspicious: bool) -> bool:
        """Takes the next sample; True when the profile has changed and should be saved.

        Args:
            sample: any; contaminated ones are left out.
            suspicious: whether a verdict is pending or firing: then nothing is learned.
        """
        key = (sample.engine, sample.dp_rank)
        item = self._coupling.observation(sample)
        if item is None or suspicious:
            self._pairs.interrupt(key)
            self._windows.interrupt(key)
            return False
        self._seen += 1
        window = self._windows.see(key, item)
        if window is not None:
            self._new_windows += 1
            self._lately.append((sample.at, window))
        changed = self._new_windows >= ACCEPT_EVERY and self._redraw_accept()
        self._pairs.see(key, item)
        where = bucket(item.batch, item.total_context)
        if where in self._settled or not self._next_in_turn(where, self._coupling.sharing(sample)):
            return changed
        cell = self._cells.get(where)
        if cell is None:
            if len(self._cells) >= self._most_cells and not self._made_room():
                return changed
            cell = self._cells[where] = []
        cell.append(item)
        self._taken += 1
        if len(cell) < SETTLING:
            return changed
        self._settled.add(where)
        self._refit()
        return True

    def doubt(self, since: float) -> bool:
        """Gives up the accept lengths that came since this time; True when the profile has changed by it.

        A broken drafter is suspected only after some seconds, and those are no text to learn from.
        """
        given_up = [window for at, window in self._lately if at >= since]
        self._lately.clear()
        if not self._windows.kept.discard(given_up):
            return False
        return self._redraw_accept()

    def _next_in_turn(self, where: Bucket, ranks: int) -> bool:
        """Whether a cell takes this sample: of ranks that step together, one in so many says all there is to say."""
        passed = self._passed.pop(where, ranks - 1)
        if passed + 1 < ranks:
            self._passed[where] = passed + 1
            if len(self._passed) > self._most_cells:
                self._passed.popitem(last=False)
            return False
        self._passed[where] = 0
        return True

    def _made_room(self) -> bool:
        """Gives up the open cell that has seen least; False when all are settled."""
        waiting = [where for where in self._cells if where not in self._settled]
        if not waiting:
            return False
        poorest = min(waiting, key=lambda where: len(self._cells[where]))
        self._taken -= len(self._cells.pop(poorest))
        return True

    def _redraw_accept(self) -> bool:
        self._new_windows = 0
        if self.profile is None:
            return False
        windows = list(self._windows.kept)
        reference = remembered(windows)
        self.profile = msgspec.structs.replace(
            self.profile,
            accept=curves(accept_points(windows)),
            references=(reference,) if reference is not None else (),
        )
        return True

    def _refit(self) -> None:
        self._new_windows = 0
        self._take_stock()
        fitted = fit_profile(
            [item for where in sorted(self._settled) for item in self._cells[where]],
            name=self.name,
            samples=self._seen,
            pairs=self._pairs.pairs(),
            graph_sizes=self.graph_sizes,
            identity=self.identity,
            judged=self.judged,
            provenance="learned while running",
            windows=list(self._windows.kept),
        )
        self.profile = fitted if isinstance(fitted, Profile) else self.profile

    def identify(self, name: str, identity: Identity) -> None:
        """Takes what has become known of the service that was learned all along."""
        self.name, self.identity = name, identity
        if self.profile is not None:
            self.profile = msgspec.structs.replace(self.profile, name=name, identity=identity)

    def covered(self, batch: float, total_context: float) -> bool:
        """Whether the learned profile may judge this load."""
        return self.profile is not None and self.profile.covers(batch, total_context)

    def reason(self, batch: int, total_context: float) -> str:
        """Why the verdict is `learning` at this load: what is there and what is needed."""
        where = bucket(batch, total_context)
        if where in self._settled:
            return f"{short(total_context)} tokens at batch {batch} lie beyond what was learned around them"
        count = len(self._cells.get(where, ()))
        low, high = exp((where[1] - 0.5) * CONTEXT_STEP), exp((where[1] + 0.5) * CONTEXT_STEP)
        noun = "sample" if count == 1 else "samples"
        return f"{count} clean {noun} between {short(low)} and {short(high)} tokens at batch {batch}; need {SETTLING}"

    def coverage(self) -> Coverage:
        """How far learning has come; cheap enough for every snapshot."""
        return Coverage(
            samples=self._taken,
            settled=len(self._settled),
            open=len(self._cells) - len(self._settled),
            total_context=self._total_context,
            batches=self._batches,
        )

    def _take_stock(self) -> None:
        """Notes what the settled cells cover."""
        settled = [item for where in self._settled for item in self._cells[where]]
        totals = [item.total_context for item in settled]
        self._total_context = (min(totals), max(totals)) if totals else None
        self._batches = tuple(sorted({item.batch for item in settled}))
        self._taken = sum(len(cell) for cell in self._cells.values())

    def state(self) -> bytes:
        """Everything that a later run needs to go on from here."""
        return msgspec.json.encode(
            _Saved(
                schema=LEARNER_SCHEMA,
                name=self.name,
                identity=self.identity,
                judged=self.judged,
                graph_sizes=self.graph_sizes,
                settled=sorted(self._settled),
                cells=sorted(self._cells.items()),
                windows=list(self._windows.kept),
                pairs=self._pairs.pairs(),
                seen=self._seen,
            )
        )

    @classmethod
    def restored(cls, data: bytes, *, coupled: bool | None = None, interval: int | None = None) -> "Learner | Refusal":
        """The learner that `state` saved; a refusal with one sentence when the data are not that."""
        try:
            saved = msgspec.json.decode(data, type=_Saved)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Refusal("the saved learning state cannot be read")
        if saved.schema != LEARNER_SCHEMA:
            return Refusal(f"the saved learning state is {saved.schema}, this ddwatch reads {LEARNER_SCHEMA}")
        learner = cls(
            name=saved.name,
            identity=saved.identity,
            judged=saved.judged,
            graph_sizes=saved.graph_sizes,
            coupled=coupled,
            interval=interval,
        )
        learner._cells = dict(saved.cells[:MOST_CELLS])
        learner._settled = {where for where in saved.settled if len(learner._cells.get(where, ())) >= SETTLING}
        for item in saved.windows:
            learner._windows.kept.add(item)
        learner._pairs.restore(saved.pairs)
        learner._seen = saved.seen
        learner._take_stock()
        if learner._settled:
            learner._refit()
        return learner

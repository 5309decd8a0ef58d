"""Notices when `#token` does not say the context: HiSparse prints a device buffer that never grows."""

from ddwatch.core.records import ContextFlaw, Rank, ServerStart

EQUAL_LINES = 3
"""So many equal lines while more tokens are generated than page rounding can hide."""
PAGE_TOKENS = 128
RANK_LIMIT = 1024


class Pool:
    """The pool of one rank, as its lines print it."""

    __slots__ = ("at", "generated", "lines", "page", "rank", "sparse", "tokens")

    def __init__(self, rank: Rank, *, sparse: bool, page: int) -> None:
        self.rank = rank
        self.sparse = sparse
        """Whether its server said that it prints a device buffer."""
        self.page = page
        """Tokens per page."""
        self.tokens = 0
        self.lines = 0
        self.generated = 0.0
        self.at = 0.0

    def flaw(self, running: int | None, tokens: int | None, rate: float | None, at: float) -> ContextFlaw | None:
        """Why `tokens` is not the context of what runs, None where it is."""
        if tokens is None:
            return None
        if tokens == 0:
            self.lines = 0
            return "request-end" if running else None
        if tokens != self.tokens or self.lines == 0:
            return self.moved(tokens, at)
        self.lines += 1
        self.generated += (rate or 0.0) * max(0.0, at - self.at)
        self.at = at
        hidden = self.lines >= EQUAL_LINES and self.generated > self.page * min(3, max(1, running or 1))
        return "constant" if hidden or self.sparse else None

    def moved(self, tokens: int, at: float) -> ContextFlaw | None:
        """Begins to count anew: the pool is not what it was on the line before."""
        self.tokens = tokens
        self.lines = 1
        self.generated = 0.0
        self.at = at
        return "constant" if self.sparse else None


class Pools:
    """The pools of all ranks of a stream, and what their servers' arguments say of them."""

    __slots__ = ("_pages", "_pools", "_sparse")

    def __init__(self) -> None:
        self._pools: dict[Rank, Pool] = {}
        self._sparse: set[str | None] = set()
        self._pages: dict[str | None, int] = {}

    def of(self, rank: Rank) -> Pool:
        """The pool of a rank."""
        pool = self._pools.get(rank)
        if pool is None:
            if len(self._pools) >= RANK_LIMIT:
                self._pools.clear()
            pool = self._pools[rank] = Pool(
                rank,
                sparse=rank.engine in self._sparse,
                page=self._pages.get(rank.engine, PAGE_TOKENS),
            )
        return pool

    def started(self, start: ServerStart) -> None:
        """A server's arguments say how its pools are printed; earlier lines count no longer."""
        engine = start.rank.engine
        self._pools.clear()
        if len(self._pages) >= RANK_LIMIT:
            self._pages.clear()
            self._sparse.clear()
        (self._sparse.add if start.arguments.get("enable_hisparse") is True else self._sparse.discard)(engine)
        size = start.arguments.get("page_size")
        self._pages[engine] = size if isinstance(size, int) and 0 < size <= 4096 else PAGE_TOKENS

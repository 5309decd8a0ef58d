"""One path to one endless stream of lines, through rotation, truncation and absence, with every loss marked."""

import errno
import os
from pathlib import Path

from ddwatch.core.records import Gap, GapReason, Rotation, SourceFault, SourceUp
from ddwatch_sidecar.sources.contract import Item
from ddwatch_sidecar.sources.follow import Changed, OpenLog, Pread
from ddwatch_sidecar.sources.held import Held
from ddwatch_sidecar.sources.look import Identity, Refusal, look, refusal, shown
from ddwatch_sidecar.sources.seam import loss
from ddwatch_sidecar.sources.siblings import Trace, beside

MIB = 1024 * 1024

MOST_FILES = 8
"""Files of one log that are held open, and as many that are remembered after closing."""

FRESH_SECONDS = 5.0
"""What was written into a file that was not there, or was being read, this long ago counts as live."""

MOVED_SECONDS = 2.0
"""Between two looks this close to each other a second rotation is not credible."""

HALF_LINE_SECONDS = 1.0
"""How long a newer file waits for the end of the older one's half line."""

MISSING_SECONDS = 1.0
"""How long a path may name nothing, as in the middle of a rotation, before that is told."""

BURST_SECONDS = 10.0
"""Over-long lines and NUL blocks are told at most this often."""

GONE = frozenset({errno.ESTALE, errno.EBADF, errno.ENODEV, errno.ENXIO})
"""Errors after which a descriptor never works again."""


class LogFile:
    """Follows the file at `path` by polling (docs/decisions/0006): one stat and two small reads when nothing happens.

    A file larger than `catch_up_bytes` is read in two pieces: the first `head_bytes`, where the server's arguments
    stand, and the last `catch_up_bytes`. `grace_seconds` is how long a renamed file must be silent to be let go,
    `poll_bytes` the most that one poll reads.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str = "log",
        catch_up_bytes: int = 16 * MIB,
        head_bytes: int = MIB,
        poll_bytes: int = MIB,
        grace_seconds: float = 5.0,
        pread: Pread = os.pread,
    ) -> None:
        self.name = name
        self.behind = False
        self._path = Path(path)
        self._shown = shown(path)
        self._called = shown(self._path.name)
        """The short name, for the event list of a narrow screen."""
        self._catch_up_bytes = catch_up_bytes
        self._head_bytes = head_bytes
        self._poll_bytes = poll_bytes
        self._grace_seconds = grace_seconds
        self._pread = pread
        self._files: list[Held] = []
        """Oldest first; the last one is what the path names, or named last."""
        self._let_go: list[OpenLog] = []
        """Closed files with their positions, to go on there if one comes back."""
        self._known: set[Trace] = set()
        """Pieces beside the newest file that need no reading."""
        self._place = Path(path)
        """Real path of the newest file."""
        self._fresh_at: float | None = None
        """When we last knew that nothing unseen stood at the path."""
        self._looked_at = float("-inf")
        self._broken_off = False
        """A descriptor died, so what follows joins on only if the same file comes back."""
        self._told: Refusal | None = None
        self._up = False
        self._outlived = False
        """The path names nothing, but the file that it named is still being written, and both have been told."""
        self._burst_told_at = float("-inf")
        self._closed = False

    def close(self) -> None:
        """Closes all files."""
        self._closed = True
        self.behind = False
        for held in self._files:
            held.log.close()
        self._files = []

    def poll(self, now: float) -> list[Item]:
        """See `Source.poll`; `now` in seconds since the epoch."""
        if self._closed:
            return []
        self.behind = False
        trouble = self._turn(now)
        # Newest first: whatever one writer wrote to an older file before it began the newer one is then read first.
        for held in reversed(self._files):
            held.measure()
        items: list[Item] = []
        failed = self._read_all(now, items)
        if trouble is not None and trouble.waiting:
            trouble = self._missing(trouble, now)
        trouble = failed or trouble
        self._retire(now, items)
        return self._with_health(trouble, now, items)

    # -- What the path names

    def _turn(self, now: float) -> Refusal | None:
        """Opens what the path names unless it is held already; returns why it cannot be followed."""
        found = look(self._path)
        if isinstance(found, Refusal):
            if not found.waiting:
                return found
            if self._fresh_at is None:
                # Pieces that appear from now on came and went unread.
                self._place = Path(os.path.realpath(self._path))
                self._known = set(beside(self._place).pieces)
            self._looked_at = self._fresh_at = now
            return found
        if not self._files or self._files[-1].log.identity != found:
            refused = self._open(found, now)
            if refused is not None:
                return refused
        self._looked_at = self._fresh_at = now
        self._outlived = False
        return None

    def _missing(self, found: Refusal, now: float) -> Refusal | None:
        """Whether it is worth telling that the path names nothing."""
        if not self._files:
            return found
        if self._outlived:
            return None
        if now - max(held.grown_at for held in self._files) >= MISSING_SECONDS:
            return found
        self._outlived = self._told is not None
        return None

    def _open(self, found: Identity, now: float) -> Refusal | None:
        for index, held in enumerate(self._files):
            if held.log.identity == found:
                # A file that was renamed away has come back to its name.
                self._files.append(self._files.pop(index))
                return None
        log = OpenLog.open(self._path, self._pread)
        if isinstance(log, Refusal):
            return log
        place = Path(os.path.realpath(self._path))
        fresh = self._fresh_at is not None and now - self._fresh_at <= FRESH_SECONDS
        size = log.status().st_size
        if not self._resume(log, size, live=fresh, now=now):
            opening = self._seam(log, place, now)
            log.begin(
                size,
                live=fresh and size <= MIB,
                catch_up_bytes=self._catch_up_bytes,
                head_bytes=self._head_bytes,
            )
            self._files.append(Held(log, now, opening))
        self._broken_off = False
        self._place = place
        self._known = set(beside(place).pieces)
        return None

    def _resume(self, log: OpenLog, size: int, *, live: bool, now: float) -> bool:
        """Goes on in a file that was read before, or in a copy that has taken the place of a deleted one."""
        if self._files and self._files[-1].log.status().st_nlink == 0:
            older = self._files[-1]
            if log.resume(older.log, size, live=live):
                older.log.close()
                self._files[-1] = Held(log, now, older.opening)
                return True
        for earlier in self._let_go:
            if (earlier.identity == log.identity or self._broken_off) and log.resume(earlier, size, live=live):
                self._let_go.remove(earlier)
                self._files.append(Held(log, now, []))
                return True
        return False

    def _seam(self, log: OpenLog, place: Path, now: float) -> list[Item]:
        """What to tell between the newest file held and `log`, which follows it."""
        if self._broken_off:
            return [self._gap(now, "replaced", f"{self._called} is another file than before it could not be read")]
        if self._fresh_at is None:
            return []
        held = {file.log.identity for file in self._files} | {log.identity}
        recent = now - self._looked_at <= MOVED_SECONDS
        before = self._files[-1].log.status() if self._files else None
        lost = loss(self._path, before, beside(self._place), self._known, held, recent=recent)
        if lost is not None:
            sentence, deleted = lost
            return [self._gap(now, "replaced" if deleted else "rotated", sentence)]
        if before is None:
            return []
        target = "" if place == self._place else f" to {shown(place.name)}"
        return [Rotation(at=now, source=self.name, detail=f"{self._called} was rotated{target}; no line was lost")]

    # Reading

    def _read_all(self, now: float, items: list[Item]) -> Refusal | None:
        """Reads the chain in order; a newer file waits until the older ones are drained."""
        trouble: Refusal | None = None
        budget = self._poll_bytes
        for index, held in enumerate(tuple(self._files)):
            items += held.opening
            held.opening = []
            before = held.log.offset
            try:
                self._read_one(held, budget, now, items)
                held.failing_since = None
            except OSError as error:
                trouble = refusal(self._path, error)
                self._fail(held, error, now, items)
            budget = max(0, budget - abs(held.log.offset - before))
            self._tell_losses(held, now, items)
            if held not in self._files:
                continue
            if not held.drained:
                self.behind = held.failing_since is None
                break
            if any(newer.size for newer in self._files[index + 1 :]) and self._waits(held, now, items):
                break
        for held in self._files:
            if held.log.offset == 0:
                held.watch()
        return trouble

    def _read_one(self, held: Held, budget: int, now: float, items: list[Item]) -> None:
        log = held.log
        before = log.offset
        try:
            if held.size < log.offset:
                raise Changed
            if held.changed or held.drained:
                log.verify()
            if held.changed:
                held.changed = False
                detail = f"{self._called} was shortened to {held.size} bytes before its end was read"
                items.append(self._gap(now, "truncated", detail))
            self._advance(held, budget, now, items)
        except Changed:
            self._restart(held, now, items)
            try:
                self._advance(held, budget, now, items)
            except Changed:
                # Changed again in this very moment: the next poll sees it.
                held.size = log.offset
        if log.offset != before:
            held.grown_at = now

    def _advance(self, held: Held, budget: int, now: float, items: list[Item]) -> None:
        log = held.log
        before = log.offset
        items += log.read(held.size, budget)
        left = max(0, budget - (log.offset - before))
        if log.at_skip:
            left_out = log.jump_skip()
            detail = (
                f"{left_out / MIB:.1f} MiB in the middle of {self._called} were skipped: it was large when first read"
            )
            items.append(self._gap(now, "skipped", detail))
            items += log.read(held.size, left)

    def _restart(self, held: Held, now: float, items: list[Item]) -> None:
        was = held.log.offset
        size = held.log.status().st_size
        dropped = held.log.restart(size=size, catch_up_bytes=self._catch_up_bytes, head_bytes=self._head_bytes)
        held.size = min(held.size, size)
        held.changed = False
        half = f", half a line ({dropped} bytes) dropped" if dropped else ""
        detail = f"{self._called} was truncated after {was} bytes{half}; what it held since the last look is unknown"
        items.append(self._gap(now, "truncated", detail))

    def _waits(self, held: Held, now: float, items: list[Item]) -> bool:
        """Whether a newer file has to wait for the end of this one's half line; at last the half is delivered."""
        if not held.log.lines.pending:
            held.waited_since = None
            return False
        if held.waited_since is None:
            held.waited_since = now
        if now - held.waited_since < HALF_LINE_SECONDS:
            return True
        items += held.log.lines.flush()
        held.waited_since = None
        return False

    def _fail(self, held: Held, error: OSError, now: float, items: list[Item]) -> None:
        """Keeps a file that may be read again later, and lets go of one that will not."""
        if held.failing_since is None:
            held.failing_since = now
        newest = held is self._files[-1]
        if newest and error.errno in GONE:
            self._broken_off = True
        elif not newest and (error.errno in GONE or now - held.failing_since >= self._grace_seconds):
            detail = f"the end of a rotated file of {self._called} could not be read"
            items.append(self._gap(now, "lost", detail))
        else:
            return
        self._drop(held)

    # Letting go and telling

    def _retire(self, now: float, items: list[Item]) -> None:
        """Lets go of renamed files once the writer has moved on."""
        for index, held in enumerate(tuple(self._files[:-1])):
            silent = now - held.grown_at >= self._grace_seconds
            followed = any(newer.size for newer in self._files[index + 1 :])
            too_many = len(self._files) > MOST_FILES
            if not too_many and not (held.drained and not held.opening and silent and followed):
                break
            items += [*held.opening, *held.log.lines.flush()]
            if not held.drained:
                detail = f"{self._called} is rotated faster than it can be read; the end of a file was not read"
                items.append(self._gap(now, "lost", detail))
            self._tell_losses(held, now, items, last=True)
            self._known.add(Trace.of(held.log.status()))
            self._drop(held)

    def _drop(self, held: Held) -> None:
        held.log.close()
        self._files.remove(held)
        self._let_go = [*self._let_go[1 - MOST_FILES :], held.log]

    def _tell_losses(self, held: Held, now: float, items: list[Item], *, last: bool = False) -> None:
        if not last and now - self._burst_told_at < BURST_SECONDS:
            return
        losses = held.untold(self._called)
        if losses:
            self._burst_told_at = now
            items += [self._gap(now, reason, sentence) for reason, sentence in losses]

    def _with_health(self, trouble: Refusal | None, now: float, items: list[Item]) -> list[Item]:
        if trouble is None:
            self._told = None
            if self._up:
                return items
            self._up = True
            detail = (
                f"a file that {self._shown} no longer names is still written"
                if self._outlived
                else f"reading {self._shown}"
            )
            return [SourceUp(at=now, source=self.name, detail=detail), *items]
        if trouble != self._told:
            self._told = trouble
            self._up = False
            items.append(SourceFault(at=now, source=self.name, reason=trouble.reason, waiting=trouble.waiting))
        return items

    def _gap(self, now: float, reason: GapReason, detail: str) -> Gap:
        return Gap(at=now, source=self.name, reason=reason, detail=detail)

"""The journal of one unit: what journalctl prints as JSON, continued at its cursor, with every known loss marked."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ddwatch.core.log_place import unit_matches
from ddwatch.core.records import Gap, GapReason
from ddwatch_sidecar.sources.child import Pipe, ending
from ddwatch_sidecar.sources.child_lines import Moment, Trouble
from ddwatch_sidecar.sources.complaint import Complaint
from ddwatch_sidecar.sources.contract import Item, Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT
from ddwatch_sidecar.sources.stamped import Stamp, handed_on

JOURNALCTL = ("journalctl",)
LONGEST = 1024 * 1024
"""Bytes of one entry: bytes that are no text are printed as a list of numbers."""
MEAN_LINE_BYTES = 200
"""What a line of SGLang's has, to turn bytes to catch up into lines."""
HEAD_BYTES = 1024 * 1024
"""How much is read of the beginning of the unit's present run, where the server's arguments stand."""
PATIENCE_SECONDS = 5.0
"""How long a large journal may take to find the first entry."""
SUPPRESSED = "a596d6fe7bfa4994828e72309e95d61e"
"""journald's own id of "Suppressed N messages"."""
FIELDS = "MESSAGE,MESSAGE_ID,N_DROPPED,_LINE_BREAK,_STREAM_ID,_SYSTEMD_INVOCATION_ID,INVOCATION_ID,_PID"
MANAGER = "1"
"""Process id of systemd, which speaks of the unit in its journal."""
EXITED = re.compile(rb"Main process exited, code=(\w{1,20}), status=([\w/]{1,30})")
EXIT_SECONDS = 1.0
"""After this without a new start the end of the main process is the end of the server."""
REMEDY = "add the user that runs ddwatch to the group systemd-journal or adm"


class Entry(msgspec.Struct):
    """What is looked at of one entry."""

    cursor: str = msgspec.field(name="__CURSOR")
    microseconds: str = msgspec.field(name="__REALTIME_TIMESTAMP")
    message: str | list[Any] | None = msgspec.field(default=None, name="MESSAGE")
    message_id: str | list[Any] | None = msgspec.field(default=None, name="MESSAGE_ID")
    dropped: str | list[Any] | None = msgspec.field(default=None, name="N_DROPPED")
    line_break: str | list[Any] | None = msgspec.field(default=None, name="_LINE_BREAK")
    stream: str | list[Any] | None = msgspec.field(default=None, name="_STREAM_ID")
    invocation: str | list[Any] | None = msgspec.field(default=None, name="_SYSTEMD_INVOCATION_ID")
    told_invocation: str | list[Any] | None = msgspec.field(default=None, name="INVOCATION_ID")
    pid: str | list[Any] | None = msgspec.field(default=None, name="_PID")

    @property
    def stamp(self) -> Stamp | None:
        """When journald got it."""
        if not (self.microseconds.isdecimal() and len(self.microseconds) < 19):
            return None
        seconds, micros = divmod(int(self.microseconds), 1_000_000)
        return Stamp(seconds, micros * 1000)

    @property
    def text(self) -> bytes:
        """What was written; journald hands bytes that are no printable text on as numbers."""
        found = self.message
        if isinstance(found, list) and found and not isinstance(found[0], int):
            # An entry may carry the field several times.
            found = found[0]
        if isinstance(found, list):
            try:
                return bytes(found)
            except (TypeError, ValueError):
                return b""
        return found.encode("utf-8", "replace") if isinstance(found, str) else b""


DECODER = msgspec.json.Decoder(Entry)


class Journal:
    """See `Dialect`.

    The first run asks for the newest entry, which names the unit's present invocation; the second reads the beginning
    of that invocation; the third and all later ones follow.
    """

    longest = LONGEST
    pipes: frozenset[Pipe] = frozenset({"out"})

    def __init__(
        self,
        unit: str,
        *,
        name: str,
        user: bool = False,
        catch_up_bytes: int = 16 * 1024 * 1024,
        head_bytes: int = HEAD_BYTES,
        command: Sequence[str] = JOURNALCTL,
    ) -> None:
        self._unit = unit
        self._name = name
        self._matches = unit_matches(unit, user=user)
        self._lines = catch_up_bytes // MEAN_LINE_BYTES
        self._command = tuple(command)
        self._stage = "newest" if self._lines else "follow"
        self._invocation: str | None = None
        self._head_left = head_bytes
        self._skipping = False
        """Whether the middle, between the beginning and the end, is left out."""
        self._cursor: str | None = None
        """Of the last entry that was taken."""
        self._stamp: Stamp | None = None
        self._seam: str | None = None
        """What the first entries of this run are compared with."""
        self._exit: tuple[float, Any, str] | None = None
        """When the main process ended, in which invocation, and how."""
        self.stands: Trouble | None = None
        self._piece: tuple[Any, bytes] | None = None
        """The beginning of a line that journald stored in pieces."""
        self.subject = f"the journal of {unit}"

    def words(self) -> Sequence[str]:
        """See `Dialect`."""
        words = [*self._command, "--output=json", "--all", "--no-pager", f"--output-fields={FIELDS}"]
        if self._stage == "newest":
            return [*words, "--boot", "--lines=1", *self._matches]
        if self._stage == "head":
            return [*words, f"_SYSTEMD_INVOCATION_ID={self._invocation}", self._matches[0]]
        words.append("--follow")
        self._seam = self._cursor
        if self._cursor is not None and not self._skipping:
            return [*words, "--no-tail", f"--cursor={self._cursor}", *self._matches]
        return [*words, f"--lines={self._lines}", *self._matches]

    def out(self, line: Line, moment: Moment) -> list[Item]:
        """See `Dialect`."""
        try:
            entry = DECODER.decode(line.data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            if line.whole or line.data[:1] != b"{":
                return []
            return [self._gap(moment, "too-long", f"an entry of {self.subject} longer than 1 MiB was not read")]
        stamp = entry.stamp
        if stamp is None:
            return []
        if self._stage == "newest":
            for found in (entry.invocation, entry.told_invocation):
                if self._invocation is None and isinstance(found, str) and found.isalnum():
                    self._invocation = found
            return []
        if self.enough():
            return []
        items: list[Item] = []
        if self._seam is not None and not self._joined(entry, stamp, moment, items):
            return items
        self._cursor, self._stamp = entry.cursor, stamp
        text = entry.text
        if self._stage == "head":
            self._head_left -= len(text) + 1
            self._skipping = self._head_left <= 0
        if entry.message_id == SUPPRESSED:
            count = entry.dropped if isinstance(entry.dropped, str) and entry.dropped.isdecimal() else "some"
            detail = f"journald dropped {count} lines of {self._unit}: LogRateLimitIntervalSec=0 in the unit stops that"
            items.append(self._gap(moment, "suppressed", detail))
            return items
        live = self._stage == "follow" and moment.live(stamp.epoch)
        if entry.pid == MANAGER:
            self._managed(entry, text, moment, live=live)
            return items
        self._begun(entry.invocation)
        # What the rest of a dead server says is no sign of life.
        return items if self.stands is not None else [*items, *self._whole(entry, text, stamp, live=live)]

    def _managed(self, entry: Entry, text: bytes, moment: Moment, *, live: bool) -> None:
        """Takes what systemd says of the unit."""
        self._begun(entry.told_invocation)
        exited = EXITED.search(text)
        if exited is not None and live:
            how = f"{exited[1].decode()}, {exited[2].decode()}"
            self._exit = (moment.now, entry.told_invocation, how)

    def _begun(self, invocation: Any) -> None:
        """A process of this invocation was heard: another one than that which ended is a new start."""
        if self._exit is not None and invocation is not None and invocation != self._exit[1]:
            self._exit = self.stands = None

    def _joined(self, entry: Entry, stamp: Stamp, moment: Moment, items: list[Item]) -> bool:
        """Whether this entry is new, while it is not yet known where the last run ended."""
        if entry.cursor == self._seam:
            self._seam = None
            self._skipping = False
            return False
        if self._stamp is not None and stamp <= self._stamp:
            return False
        self._seam = None
        if self._skipping:
            self._skipping = False
            detail = f"the middle of {self.subject} was skipped: it was large when first read"
            items.append(self._gap(moment, "skipped", detail))
        else:
            detail = f"{self.subject} was rotated away before it was read on; lines in between may be missing"
            items.append(self._gap(moment, "rotated", detail))
        return True

    def _whole(self, entry: Entry, text: bytes, stamp: Stamp, *, live: bool) -> list[Item]:
        """The line of an entry, joined with the pieces before it."""
        if self._piece is not None:
            stream, before = self._piece
            self._piece = None
            if stream == entry.stream:
                text = before + text
        if entry.line_break == "line-max" and len(text) <= LINE_LIMIT:
            self._piece = (entry.stream, text)
            return []
        return [handed_on(text, stamp, live=live, whole=True)]

    def err(self, line: Line, moment: Moment) -> list[Item] | None:
        """See `Dialect`."""
        return None

    def polled(self, size: int, moment: Moment) -> list[Item]:
        """See `Dialect`."""
        if self._exit is not None and self.stands is None and moment.now - self._exit[0] >= EXIT_SECONDS:
            words = f"the main process of {self._unit} has ended ({self._exit[2]}): `systemctl status {self._unit}`"
            self.stands = Trouble(words, gone=True)
        return []

    def enough(self) -> bool:
        """See `Dialect`."""
        return self._stage == "head" and self._skipping

    def silent(self, seconds: float, complaint: Complaint) -> Trouble | bool:
        """See `Dialect`."""
        refused = self._refused(complaint)
        if refused is not None:
            return refused
        if self._stage != "follow":
            return False
        if self._cursor is not None or seconds < PATIENCE_SECONDS:
            return self._cursor is not None
        reason = f"the journal holds no line of {self._unit} (yet): is the name right? `systemctl status {self._unit}`"
        return Trouble(reason, waiting=True)

    def _refused(self, complaint: Complaint) -> Trouble | None:
        if self._cursor is None and complaint.says("permission", "not seeing messages"):
            return Trouble(f"{self.subject} may not be read by this user: {REMEDY}", waiting=True)
        return None

    def ended(self, status: int | None, complaint: Complaint, moment: Moment) -> tuple[list[Item], Trouble | None]:
        """See `Dialect`."""
        refused = self._refused(complaint)
        if self._stage != "follow" and refused is None and status in (None, 0, 1):
            self._stage = "head" if self._stage == "newest" and self._invocation is not None else "follow"
            return [], None
        if refused is not None:
            return [], refused
        if complaint.says("seek to cursor") and self._cursor is not None:
            self._cursor = self._seam = None
            detail = f"the place in {self.subject} where reading stopped is gone; lines in between may be missing"
            return [self._gap(moment, "rotated", detail)], None
        if complaint.says("no such boot", "no journal files"):
            return [], Trouble(f"there is no journal here: journald keeps none, or {REMEDY}", waiting=True)
        return [], Trouble(f"{complaint.after(f'journalctl {ending(status)}')}; it is started again")

    def missing(self, sentence: str) -> Trouble:
        """See `Dialect`."""
        return Trouble(
            f"{sentence}: without systemd there is no journal; name a file (--log PATH) or a container "
            "(--log docker:NAME)",
            waiting=True,
        )

    def _gap(self, moment: Moment, reason: GapReason, detail: str) -> Gap:
        return Gap(at=moment.now, source=self._name, reason=reason, detail=detail)

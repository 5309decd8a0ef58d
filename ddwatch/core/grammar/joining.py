"""What waits for a further line: wrapped decode lines, tracebacks, a card's report in several lines, cut requests."""

from ddwatch.core.grammar.crash import kind_of, reason_of
from ddwatch.core.grammar.decode import read as read_decode
from ddwatch.core.grammar.message import Message
from ddwatch.core.grammar.prefix import Prefix
from ddwatch.core.grammar.xid import FALLEN, GPU
from ddwatch.core.records import Crash, DecodeBatch, Record, Unread, Xid

TRACEBACK_LINES = 400
REQUEST_LINES = 200
WRAPPED_LINES = 4
CARD_LINES = 5


class Joining:
    """At most one of each kind waits; everything is bounded in lines."""

    __slots__ = ("_card", "_card_lines", "_crash", "_crash_lines", "_request_lines", "_wrapped", "_wraps", "waiting")

    def __init__(self) -> None:
        self.waiting = False
        """Whether the next line may belong to an earlier one."""
        self._wrapped: tuple[Message, Record] | None = None
        self._wraps = 0
        self._crash: Crash | None = None
        self._crash_lines = 0
        self._card: Message | None = None
        self._card_lines = 0
        self._request_lines = 0

    def hold_decode(self, message: Message, record: Record) -> None:
        """A decode line without its rate: a pager may have put the rest on the next line."""
        self._wrapped = (message, record)
        self._wraps = 0
        self.waiting = True

    def hold_crash(self, crash: Crash) -> None:
        """An exception whose reason stands at the end of the traceback that follows."""
        self._crash = crash
        self._crash_lines = TRACEBACK_LINES
        self.waiting = True

    def hold_card(self, message: Message) -> None:
        """The driver names a card and says what happened to it in a later line."""
        self._card = message
        self._card_lines = CARD_LINES
        self.waiting = True

    def hold_request(self) -> None:
        """A request was printed with line breaks in it: lines without a prefix are its text."""
        self._request_lines = REQUEST_LINES
        self.waiting = True

    def release(self) -> list[tuple[Record, Message | None]]:
        """Everything that waited, as it is."""
        released: list[tuple[Record, Message | None]] = []
        if self._wrapped is not None:
            released.append((self._wrapped[1], self._wrapped[0]))
        if self._crash is not None:
            released.append((self._crash, None))
        self._wrapped = self._crash = self._card = None
        self._crash_lines = self._request_lines = 0
        self.waiting = False
        return released

    def take(self, segment: str, prefix: Prefix, headed: bool) -> tuple[bool, list[tuple[Record, Message | None]]]:
        """Offers a line: whether it was part of what waits, and what is complete with it."""
        if self._request_lines and not prefix.own:
            self._request_lines -= 1
            return True, []
        if self._card is not None and not prefix.own and prefix.message.startswith("NVRM: "):
            return self._take_card(prefix.message)
        if prefix.own or headed:
            return False, self.release()
        if self._crash_lines:
            return True, self._take_traceback(segment, prefix)
        if self._wrapped is not None:
            return self._take_wrapped(segment, prefix.message)
        return False, []

    def _take_card(self, message: str) -> tuple[bool, list[tuple[Record, Message | None]]]:
        card = self._card
        if card is None or message.startswith("NVRM: Xid"):
            return False, self.release()
        self._card_lines -= 1
        if FALLEN in message:
            gpu = GPU.match(card.text)
            self._card = None
            self.waiting = False
            return True, [(Xid(**card.where, code=None, pci_bus=gpu[1].rstrip(":") if gpu else None), None)]
        if GPU.match(message) or self._card_lines <= 0:
            return False, self.release()
        return True, []

    def _take_traceback(self, segment: str, prefix: Prefix) -> list[tuple[Record, Message | None]]:
        self._crash_lines -= 1
        if self._crash is None or segment[:1] in (" ", "\t"):
            return [] if self._crash_lines else self.release()
        reason = reason_of(prefix.message)
        if reason is None:
            return [] if self._crash_lines else self.release()
        crash, self._crash = self._crash, None
        named = Crash(
            at=crash.at, stamp=crash.stamp, rank=crash.rank, line=crash.line, kind=kind_of(reason), reason=reason
        )
        return [(named, None)]

    def _take_wrapped(self, segment: str, message: str) -> tuple[bool, list[tuple[Record, Message | None]]]:
        if self._wrapped is None or not message:
            return False, self.release()
        first, record = self._wrapped
        gap = " " if first.text.endswith(",") or segment[:1] in (" ", "\t") else ""
        joined = first._replace(text=first.text + gap + message)
        better = read_decode(joined)
        self._wraps += 1
        if not isinstance(better, DecodeBatch) or (
            isinstance(record, DecodeBatch) and _known(better) <= _known(record)
        ):
            return False, self.release()
        self._wrapped = (joined, better)
        if better.throughput_tokens_per_second is None and self._wraps < WRAPPED_LINES:
            return True, []
        return True, self.release()


def incomplete(record: Record) -> bool:
    """Whether the rest of this decode line may stand on the next one."""
    return isinstance(record, Unread) or (
        isinstance(record, DecodeBatch) and record.throughput_tokens_per_second is None
    )


def _known(batch: DecodeBatch) -> int:
    """How many known fields a line has."""
    return sum(getattr(batch, name) is not None for name in batch.__struct_fields__)

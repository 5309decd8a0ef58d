"""The reader of one stream of log lines: opens, joins, finds the head, hands out records."""

import re
from collections.abc import Sequence
from datetime import tzinfo

from msgspec.structs import replace

from ddwatch.core.grammar import FORMATS
from ddwatch.core.grammar.bars import segments
from ddwatch.core.grammar.envelope import Envelopes, Opened
from ddwatch.core.grammar.joining import Joining, incomplete
from ddwatch.core.grammar.message import Message
from ddwatch.core.grammar.placement import Placement
from ddwatch.core.grammar.pools import Pools
from ddwatch.core.grammar.prefix import Prefix, read_prefix
from ddwatch.core.grammar.standard import Standard
from ddwatch.core.grammar.text import decoded
from ddwatch.core.grammar.xid import GPU
from ddwatch.core.records import Crash, DecodeBatch, PrefillBatch, Record, ServerStart

HEADS = re.compile("|".join(f"({form.head})" for form in FORMATS), re.ASCII)
"""All heads at once; the number of the group that matched is the format's."""

GLUED = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: [A-Z]{2}\d{1,6}){0,8}\] ")
"""A second record on the line of a batch, where no user text can be."""
BATCHES = frozenset({"decode", "prefill"})
REQUESTS = re.compile(r"(?:Finish|Receive): ")
CLOSED = (")", "}", "]")


class LogReader:
    """Reads one stream, line by line, into records; never raises, whatever the bytes.

    `zone` is where the log's stamps are at home (None: the zone of this machine) and `base` where on the timeline a
    log without times begins, in seconds since the epoch; both only matter for a replay. `key` makes the digests of
    withheld server arguments unguessable: random bytes of this process; without it they only say "set".
    """

    def __init__(self, zone: tzinfo | None, base: float, key: bytes = b"") -> None:
        self._placement = Placement(zone, base)
        self._envelopes = Envelopes()
        self._joining = Joining()
        self._pools = Pools()
        self._standard = Standard(self._placement, self._pools)
        self._short = self._standard.read
        self._key = key
        self._arrived: float | None = None

    @property
    def stamped(self) -> bool:
        """Whether the log has times of its own; if not, the places in a replay are estimates."""
        return self._placement.stamped

    def read(self, line: bytes, arrived: float | None, number: int | None) -> Sequence[Record]:
        """The records that this line completes.

        `line` comes without its newline; `arrived` is when it came (seconds since the epoch), or None in a replay;
        `number` is the 1-based number of the physical line.
        """
        self._arrived = arrived
        if not self._joining.waiting:
            standard = self._short(line, arrived, None, None, number)
            if standard is not None:
                return standard
        return self._general(line, number)

    def _general(self, line: bytes, number: int | None) -> list[Record]:
        """The way of every line that is not a standard one as it stands."""
        records: list[Record] = []
        opened = self._envelopes.open(line, number) if line[:1] in b"{0123456789" else None
        if opened is None:
            self._line(Opened(line, None, None, number), records)
            return records
        for inner in opened:
            standard = None
            if not self._joining.waiting:
                standard = self._short(inner.text, self._arrived, inner.outer, inner.engine, inner.number)
            if standard is None:
                self._line(inner, records)
            else:
                records += standard
        return records

    def close(self) -> Sequence[Record]:
        """What was waiting for a further line; call it at the end of the stream and whenever the stream is quiet."""
        records: list[Record] = []
        for inner in self._envelopes.flush():
            self._line(inner, records)
        for record, message in self._joining.release():
            self._emit(record, message, records)
        return records

    def _line(self, line: Opened, records: list[Record]) -> None:
        first, _, more = line.text.partition(b"\n")
        for segment in segments(decoded(first)):
            while segment:
                segment = self._segment(segment, line, records)
        # Further lines of one journal entry never begin a message: they can only belong to it.
        for rest in more.split(b"\n") if more else ():
            if not self._joining.waiting:
                return
            text = decoded(rest)
            prefix = read_prefix(text)._replace(own=False)
            for record, message in self._joining.take(text, prefix, headed=False)[1]:
                self._emit(record, message, records)

    def _segment(self, segment: str, line: Opened, records: list[Record]) -> str:
        """Reads what begins here; returns what is glued to its end and begins another record."""
        prefix = read_prefix(segment)
        text = prefix.message
        head = HEADS.match(text)
        if self._joining.waiting:
            taken, complete = self._joining.take(segment, prefix, headed=head is not None)
            for record, message in complete:
                self._emit(record, message, records)
            if taken:
                return ""
        if head is None:
            if prefix.own and REQUESTS.match(text) and not text.endswith(CLOSED):
                self._joining.hold_request()
            return ""
        form = FORMATS[(head.lastindex or 1) - 1]
        rank = prefix.rank if line.engine is None or prefix.rank.engine else replace(prefix.rank, engine=line.engine)
        rest = ""
        if form.name in BATCHES:
            text = text.partition("\r")[0]
            # The forward counter may stand in brackets at the start.
            glued = GLUED.search(text, 24) if "[" in text[24:] else None
            if glued is not None:
                text, rest = text[: glued.start()], text[glued.start() :]
        at = self._place(prefix, line.outer)
        whole = Message(text, at, prefix.stamp, rank, line.number, self._key)
        found = form.read(whole)
        if found is None:
            if form.name == "xid" and GPU.match(text):
                self._joining.hold_card(whole)
        elif form.name == "decode" and not rest and incomplete(found):
            self._joining.hold_decode(whole, found)
        elif isinstance(found, Crash) and form.name == "crash" and found.reason is None:
            self._joining.hold_crash(found)
        else:
            self._emit(found, whole, records)
        if form.name == "finish" and prefix.own and not text.endswith(CLOSED):
            self._joining.hold_request()
        return rest

    def _place(self, prefix: Prefix, outer: float | None) -> float:
        placement = self._placement
        outer = prefix.outer if outer is None else outer
        if self._arrived is not None:
            placement.stamped = placement.stamped or prefix.stamp is not None or outer is not None
            return self._arrived
        if outer is not None:
            return placement.zoned(outer)
        return placement.last if prefix.stamp is None else placement.stamp(prefix.stamp)

    def _emit(self, record: Record, message: Message | None, records: list[Record]) -> None:
        """Hands out a record, after what the lines before it say of it."""
        if isinstance(record, DecodeBatch):
            at = record.at
            if self._arrived is None and not self._placement.stamped:
                at = self._placement.estimate(
                    record.rank,
                    record.running,
                    record.total_context_tokens,
                    record.accept_length,
                    record.throughput_tokens_per_second,
                )
            flaw = record.context_flaw
            if record.gpu_tokens is None:
                flaw = self._pools.of(record.rank).flaw(
                    record.running, record.total_context_tokens, record.throughput_tokens_per_second, at
                )
            if at != record.at or flaw != record.context_flaw:
                record = replace(record, at=at, context_flaw=flaw)
        elif isinstance(record, PrefillBatch):
            self._placement.prefill(record.rank)
        elif isinstance(record, ServerStart):
            self._pools.started(record)
            self._standard.forget()
            self._placement.started(record)
        records.append(record)

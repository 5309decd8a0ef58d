"""Documents on the wire: strict, versioned JSON for snapshots, history and rows, and back again.

Times travel as ISO 8601 with offset (UTC) and live as epoch seconds inside. An absent value is `null`;
NaN and infinities cannot be written (msgspec encodes them as `null`, and the decoders refuse a `null` where
a number is required).
"""

from datetime import datetime, timezone
from typing import Any

import msgspec

from ddwatch.core.snapshot import Frame, History, Sample, Snapshot

SNAPSHOT_SCHEMA = "ddwatch.snapshot/1"
HISTORY_SCHEMA = "ddwatch.history/1"
STREAM_SCHEMA = "ddwatch.stream/1"
STEPS_SCHEMA = "ddwatch.steps/1"

TIME_KEYS = frozenset({"at", "since", "started_at", "ready_at", "last_at", "began_at", "resolved_at", "until"})
"""Every field of the snapshot types that is a time; a test compares this with the types."""

PARTS = frozenset(field.name for field in msgspec.structs.fields(Snapshot) if not field.required)
"""Fields of a snapshot that can be left out while it is put together."""


class WireError(ValueError):
    """A document that is not what this version reads; the message is one sentence for the operator."""


def iso(at: float) -> str:
    """ISO 8601 in UTC with millisecond resolution and offset."""
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds")


def epoch(text: str) -> float:
    """The inverse of `iso`; any offset is understood. Raises ValueError on anything else."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(f"a time without offset: {text!r}")
    return moment.timestamp()


def _times_out(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: iso(item) if key in TIME_KEYS and isinstance(item, (int, float)) else _times_out(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        # Times have keys, so a list of plain values has none; the trends of many cards are such lists.
        return [_times_out(item) for item in value] if value and isinstance(value[0], (dict, list, tuple)) else [*value]
    return value


def _times_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: epoch(item) if key in TIME_KEYS and isinstance(item, str) else _times_in(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_times_in(item) for item in value] if value and isinstance(value[0], (dict, list)) else value
    return value


def document(value: msgspec.Struct) -> dict[str, Any]:
    """A struct as plain JSON values with ISO times."""
    plain: dict[str, Any] = _times_out(msgspec.to_builtins(value))
    return plain


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The body of /v1/snapshot."""
    return msgspec.json.encode({"schema": SNAPSHOT_SCHEMA, **document(snapshot)})


def encode_history(history: History, seq: int) -> bytes:
    """The body of /v1/history: all items after the one asked for, and the newest `seq` to ask from next."""
    return msgspec.json.encode({"schema": HISTORY_SCHEMA, "seq": seq, **document(history)})


def encode_stream(frame: Frame) -> bytes:
    """The data of one server-sent event: a snapshot and the history since the reader's last event."""
    return msgspec.json.encode({"schema": STREAM_SCHEMA, **document(frame)})


class FrameWriter:
    """Encodes frames like `encode_stream`, one after the other.

    What moves once a second stands in four frames of that second: a part of the snapshot that is still the very object
    of the frame before is not encoded again.
    """

    def __init__(self) -> None:
        self._parts: dict[str, tuple[object, msgspec.Raw]] = {}

    def encode(self, frame: Frame) -> bytes:
        """The data of one server-sent event."""
        parts = {name: self._part(name, getattr(frame.snapshot, name)) for name in Snapshot.__struct_fields__}
        plain = {"schema": STREAM_SCHEMA, "snapshot": parts, "history": document(frame.history)}
        return msgspec.json.encode(plain)

    def _part(self, name: str, value: object) -> object:
        if not isinstance(value, (msgspec.Struct, tuple)):
            return iso(value) if name in TIME_KEYS and isinstance(value, (int, float)) else value
        known = self._parts.get(name)
        if known is None or known[0] is not value:
            encoded = msgspec.json.encode(_times_out(msgspec.to_builtins(value)))
            known = self._parts[name] = (value, msgspec.Raw(encoded))
        return known[1]


def _decode(data: bytes | str, schema: str) -> dict[str, Any]:
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError("the answer is not JSON; is this address a ddwatch sidecar?") from error
    found = plain.get("schema") if isinstance(plain, dict) else None
    if not isinstance(found, str) or not found.startswith("ddwatch."):
        raise WireError("the answer is not a ddwatch document; is this address a ddwatch sidecar?")
    if found != schema:
        raise WireError(f"the sidecar speaks {found}, this ddwatch reads {schema}: install the same version on both")
    del plain["schema"]
    restored: dict[str, Any] = plain
    return restored


def _convert(plain: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(_times_in(plain), kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise WireError(f"the sidecar sent a document that this ddwatch cannot read ({error})") from error


def decode_snapshot(data: bytes | str) -> Snapshot:
    """Reads /v1/snapshot; raises WireError with one sentence."""
    snapshot: Snapshot = _convert(_decode(data, SNAPSHOT_SCHEMA), Snapshot)
    return snapshot


def decode_history(data: bytes | str) -> tuple[History, int]:
    """Reads /v1/history; raises WireError with one sentence."""
    plain = _decode(data, HISTORY_SCHEMA)
    seq = plain.pop("seq", None)
    if not isinstance(seq, int):
        raise WireError("the sidecar sent a history without its sequence number")
    history: History = _convert(plain, History)
    return history, seq


def decode_stream(data: bytes | str) -> Frame:
    """Reads the data of one server-sent event; raises WireError with one sentence."""
    frame: Frame = _convert(_decode(data, STREAM_SCHEMA), Frame)
    return frame


class _Parted(msgspec.Struct):
    schema: str
    snapshot: dict[str, msgspec.Raw]
    history: dict[str, Any] = {}


class FrameReader:
    """Reads frames like `decode_stream`, one after the other.

    A part of the snapshot that came in the same bytes as in the frame before is not read again: it is the same object.
    """

    def __init__(self) -> None:
        self._parts: dict[str, tuple[bytes, object]] = {}

    def decode(self, data: bytes | str) -> Frame:
        """Reads the data of one server-sent event; raises WireError with one sentence."""
        try:
            return self._parted(msgspec.json.decode(data, type=_Parted))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, WireError):
            # Whatever is wrong with it, the whole document says it best.
            return decode_stream(data)

    def _parted(self, parted: _Parted) -> Frame:
        if parted.schema != STREAM_SCHEMA:
            raise WireError(parted.schema)
        same: dict[str, Any] = {}
        new: dict[str, bytes] = {}
        plain: dict[str, Any] = {}
        for name, raw in parted.snapshot.items():
            octets = bytes(raw)
            known = self._parts.get(name)
            if known is not None and known[0] == octets:
                same[name] = known[1]
                continue
            plain[name] = msgspec.json.decode(octets)
            if name in PARTS:
                new[name] = octets
        snapshot: Snapshot = _convert(plain, Snapshot)
        history: History = _convert(parted.history, History)
        for name, octets in new.items():
            self._parts[name] = (octets, getattr(snapshot, name))
        return Frame(snapshot=msgspec.structs.replace(snapshot, **same) if same else snapshot, history=history)


def step_row(sample: Sample, *, stamped: bool) -> dict[str, Any]:
    """One row of `ddwatch steps`, keys in the order of DESIGN.md section 7; `at` is null without a stamp."""
    return {
        "at": iso(sample.at) if stamped else None,
        "engine": sample.engine,
        "dp_rank": sample.dp_rank,
        "batch": sample.batch,
        "total_context_tokens": sample.total_context_tokens,
        "context_tokens": sample.context_tokens,
        "accept_length": sample.accept_length,
        "throughput": sample.throughput,
        "step_seconds": sample.step_seconds,
        "span": sample.span,
        "provenance": sample.provenance,
        "flags": list(sample.flags),
        "source_line": sample.source_line,
    }

"""Documents survive the wire unchanged, are strict JSON, and foreign ones are refused in one sentence."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core import wire
from ddwatch.core.alert_view import AlertView, MuteView
from ddwatch.core.snapshot import Event, Frame, History, Now, Point, Sample, ServerView, Snapshot, SourceView, Verdict

SNAPSHOT = Snapshot(
    seq=7,
    at=1_800_000_000.125,
    started_at=1_799_999_000.0,
    server=ServerView(model="kimi", started_at=1.5, ready_at=None, arguments={"tp_size": 8, "host": None}),
    now=Now(at=1_800_000_000.0, throughput=32.2, flags=("prefill",)),
    verdict=Verdict(name="learning", severity="unknown", since=3.0, sentence="x", evidence={"clean": 3}),
    sources=(SourceView(name="log", state="up", last_at=1.0),),
)
HISTORY = History(
    points=(Point(seq=1, at=2.0, throughput=None),),
    events=(Event(seq=2, at=2.5, kind="ready", severity="ok", text="ready"),),
)


def test_every_document_survives() -> None:
    assert wire.decode_snapshot(wire.encode_snapshot(SNAPSHOT)) == SNAPSHOT
    assert wire.decode_history(wire.encode_history(HISTORY, 9)) == (HISTORY, 9)
    frame = Frame(snapshot=SNAPSHOT, history=HISTORY)
    assert wire.decode_stream(wire.encode_stream(frame)) == frame


def test_a_part_that_did_not_change_is_written_and_read_once() -> None:
    writer, reader = wire.FrameWriter(), wire.FrameReader()
    first = reader.decode(writer.encode(Frame(snapshot=SNAPSHOT, history=HISTORY)))
    assert first == Frame(snapshot=SNAPSHOT, history=HISTORY)
    later = msgspec.structs.replace(SNAPSHOT, at=SNAPSHOT.at + 1, now=Now(at=1_800_000_001.0, throughput=40.0))
    data = writer.encode(Frame(snapshot=later))
    assert json.loads(data) == json.loads(wire.encode_stream(Frame(snapshot=later)))
    second = reader.decode(data)
    assert second == Frame(snapshot=later)
    assert second.snapshot.sources is first.snapshot.sources
    assert second.snapshot.server is first.snapshot.server
    for _ in range(3):
        assert reader.decode(writer.encode(Frame(snapshot=later))).snapshot == later
    gone = msgspec.structs.replace(later, sources=())
    assert reader.decode(writer.encode(Frame(snapshot=gone))).snapshot == gone


def test_a_reader_of_frames_refuses_what_the_plain_one_refuses_and_stays_usable() -> None:
    reader = wire.FrameReader()
    whole = wire.encode_stream(Frame(snapshot=SNAPSHOT, history=HISTORY))
    for _ in range(2):
        assert reader.decode(whole).snapshot == SNAPSHOT
        for wrong in (b"{", b"[]", whole.replace(b"stream/1", b"stream/9"), whole.replace(b'"seq":7', b'"seq":null')):
            with pytest.raises(wire.WireError) as plain:
                wire.decode_stream(wrong)
            with pytest.raises(wire.WireError) as parted:
                reader.decode(wrong)
            assert str(parted.value) == str(plain.value)


def test_times_travel_as_iso_with_offset_and_absent_values_as_null() -> None:
    plain = json.loads(wire.encode_snapshot(SNAPSHOT))
    assert plain["schema"] == "ddwatch.snapshot/1"
    assert plain["at"] == "2027-01-15T08:00:00.125+00:00"
    assert plain["server"]["ready_at"] is None
    assert plain["now"]["accept_length"] is None


def test_every_time_field_of_the_types_is_known_to_the_wire() -> None:
    named = set()
    for kind in (Snapshot, ServerView, Now, Verdict, SourceView, Point, Event, Sample, AlertView, MuteView):
        for field in msgspec.structs.fields(kind):
            if field.name == "at" or field.name.endswith("_at") or field.name in ("since", "until"):
                named.add(field.name)
    assert named == wire.TIME_KEYS


def test_nan_never_reaches_the_wire() -> None:
    history = History(points=(Point(seq=1, at=1.0, throughput=float("nan")),))
    assert b"NaN" not in wire.encode_history(history, 1)
    assert json.loads(wire.encode_history(history, 1))["points"][0]["throughput"] is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"<html>nginx</html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"schema": "other/1"}', "not a ddwatch document"),
        (b"[1, 2]", "not a ddwatch document"),
        (b'{"schema": "ddwatch.snapshot/2"}', "ddwatch.snapshot/2"),
        (b'{"schema": "ddwatch.snapshot/1"}', "cannot read"),
        (b'{"schema": "ddwatch.snapshot/1", "seq": 1, "at": "yesterday", "verdict": null}', "cannot read"),
    ],
)
def test_a_foreign_answer_is_refused_in_one_sentence(answer: bytes, said: str) -> None:
    with pytest.raises(wire.WireError, match=said) as refused:
        wire.decode_snapshot(answer)
    assert "\n" not in str(refused.value)


def test_a_history_without_its_number_is_refused() -> None:
    with pytest.raises(wire.WireError, match="sequence number"):
        wire.decode_history(b'{"schema": "ddwatch.history/1", "points": []}')


def test_a_time_without_offset_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="offset"):
        wire.epoch("2026-01-01T00:00:00")
    assert wire.epoch("2026-01-01T00:00:00Z") == wire.epoch("2026-01-01T02:00:00+02:00")


def test_a_row_has_the_keys_of_the_design_in_order() -> None:
    row = wire.step_row(Sample(at=0.0, batch=1, flags=("first",), source_line=3), stamped=False)
    assert list(row) == [
        "at",
        "engine",
        "dp_rank",
        "batch",
        "total_context_tokens",
        "context_tokens",
        "accept_length",
        "throughput",
        "step_seconds",
        "span",
        "provenance",
        "flags",
        "source_line",
    ]
    assert row["at"] is None
    assert row["flags"] == ["first"]
    assert wire.step_row(Sample(at=0.0), stamped=True)["at"] == "1970-01-01T00:00:00.000+00:00"


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for read in (wire.decode_snapshot, wire.decode_history, wire.decode_stream, wire.FrameReader().decode):
        with pytest.raises(wire.WireError):
            read(data)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4_000_000_000_000),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
        ),
        max_size=5,
    )
)
def test_any_history_survives(values: list[tuple[int, float | None]]) -> None:
    points = tuple(Point(seq=i, at=ms / 1000, throughput=value) for i, (ms, value) in enumerate(values))
    back, _ = wire.decode_history(wire.encode_history(History(points=points), 1))
    assert [p.throughput for p in back.points] == [p.throughput for p in points]
    assert [round(p.at, 3) for p in back.points] == [round(p.at, 3) for p in points]

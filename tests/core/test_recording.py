"""Rows of a recording give back what was put in, to the stored resolution, and the documented views agree with them."""

import re
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddwatch.core.recording import (
    APPLICATION_ID,
    FLAGS,
    LARGEST,
    SCHEMA,
    SCHEMA_NAME,
    SCHEMA_VERSION,
    STATES,
    flag_bits,
    flags_of,
    micros,
    point_of,
    point_row,
    sample_of,
    sample_row,
    scaled,
    whole,
    witness_of,
)
from ddwatch.core.snapshot import Flag, Point, Sample
from tests.architecture.checkout import ROOT

QUICK = settings(max_examples=150)

times = st.floats(min_value=1.0, max_value=4e9)
counts = st.none() | st.integers(min_value=0, max_value=10**9)
figures = st.none() | st.floats(min_value=0.0, max_value=1e6, allow_subnormal=False)
names = st.none() | st.text(max_size=8)

samples = st.builds(
    Sample,
    at=times,
    engine=names,
    dp_rank=st.none() | st.integers(0, 300),
    batch=counts,
    mean_batch=figures,
    total_context_tokens=counts,
    context_tokens=figures,
    accept_length=figures,
    throughput=figures,
    step_seconds=figures,
    span=st.sampled_from(("step", "forward", "verify")),
    provenance=st.sampled_from(("moments", "log", "fpm", "fork-log")),
    flags=st.lists(st.sampled_from(FLAGS), unique=True).map(lambda flags: tuple(sorted(flags, key=FLAGS.index))),
    steps=counts,
    source_line=counts,
)
points = st.builds(
    Point,
    seq=st.just(7),
    at=times,
    state=st.sampled_from(STATES),
    contaminated=st.booleans(),
    throughput=figures,
    accept_length=figures,
    step_seconds=figures,
    batch=counts,
    queued=counts,
    context_tokens=figures,
    total_context_tokens=counts,
    expected_throughput=figures,
    expected_low=figures,
    expected_high=figures,
    expected_step_seconds=figures,
)


def close(value: float | None, resolution: float) -> object:
    return value if value is None else pytest.approx(value, abs=resolution, rel=1e-12)


@QUICK
@given(samples)
def test_a_sample_comes_back_to_the_stored_resolution(sample: Sample) -> None:
    back = sample_of(sample_row(sample, micros(sample.at), 1), witness_of(sample))

    assert back == Sample(
        at=back.at,
        engine=sample.engine,
        dp_rank=sample.dp_rank,
        batch=sample.batch,
        mean_batch=back.mean_batch,
        total_context_tokens=sample.total_context_tokens,
        context_tokens=back.context_tokens,
        accept_length=back.accept_length,
        throughput=back.throughput,
        step_seconds=back.step_seconds,
        span=sample.span,
        provenance=sample.provenance,
        flags=sample.flags,
        steps=sample.steps,
        source_line=sample.source_line,
    )
    assert back.at == close(sample.at, 1e-6)
    assert back.mean_batch == close(sample.mean_batch, 1e-3)
    assert back.context_tokens == close(sample.context_tokens, 0.1)
    assert back.accept_length == close(sample.accept_length, 1e-4)
    assert back.throughput == close(sample.throughput, 1e-3)
    assert back.step_seconds == close(sample.step_seconds, 1e-6)


@QUICK
@given(points)
def test_a_point_comes_back_to_the_stored_resolution(point: Point) -> None:
    back = point_of(point_row(point, micros(point.at)), point.seq)

    assert (back.state, back.contaminated, back.batch, back.queued) == (
        point.state,
        point.contaminated,
        point.batch,
        point.queued,
    )
    assert back.total_context_tokens == point.total_context_tokens
    assert back.throughput == close(point.throughput, 1e-3)
    assert back.expected_low == close(point.expected_low, 1e-3)
    assert back.expected_high == close(point.expected_high, 1e-3)
    assert back.expected_step_seconds == close(point.expected_step_seconds, 1e-6)
    # A second trip changes nothing: what was stored is exact.
    assert point_row(back, micros(back.at)) == point_row(point, micros(point.at))


@QUICK
@given(samples)
def test_the_view_shows_the_same_sample_in_base_units(sample: Sample) -> None:
    with sqlite3.connect(":memory:") as database:
        database.executescript(SCHEMA)
        database.execute("INSERT INTO witnesses VALUES (1, ?, ?, ?, ?)", witness_of(sample))
        row = sample_row(sample, micros(sample.at), 1)
        database.execute(f"INSERT INTO stored_samples VALUES ({', '.join('?' * len(row))})", row)
        database.row_factory = sqlite3.Row
        seen = database.execute("SELECT * FROM samples").fetchone()
    database.close()
    back = sample_of(row, witness_of(sample))

    for name in set(seen.keys()) - {"at_iso", "flags", "clean"}:
        value = getattr(back, name)
        assert seen[name] == (value if value is None or isinstance(value, str) else pytest.approx(value)), name
    assert tuple(seen["flags"].split()) == back.flags
    assert bool(seen["clean"]) is back.clean


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_what_no_integer_holds_counts_as_not_reported(value: float) -> None:
    assert scaled(value, 1000) is None


def test_integers_beyond_sqlite_count_as_not_reported() -> None:
    assert (whole(LARGEST), whole(-LARGEST), whole(LARGEST - 1), whole(None)) == (None, None, LARGEST - 1, None)
    assert scaled(float(LARGEST // 2), 1000) is None


@given(st.lists(st.sampled_from(FLAGS)))
def test_flags_are_a_set(flags: list[Flag]) -> None:
    assert set(flags_of(flag_bits(flags))) == set(flags)


def test_the_iso_time_is_utc_with_milliseconds() -> None:
    with sqlite3.connect(":memory:") as database:
        database.executescript(SCHEMA)
        database.execute("INSERT INTO stored_sources VALUES (1796131244948260, 'log', 'up', '')")
        at, iso = database.execute("SELECT at, at_iso FROM sources").fetchone()
    database.close()

    assert (at, iso) == (1796131244.94826, "2026-12-01T13:20:44.948+00:00")


def test_the_page_for_other_tools_names_every_view_and_column() -> None:
    page = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
    listed = page.split("equal to the code -->\n")[1].split("<!-- /views -->")[0]
    told = {
        name: [column.strip() for column in columns.split(",")]
        for name, columns in re.findall(r"^- `(\w+)`: ((?:.|\n(?!- ))+)", listed, flags=re.MULTILINE)
    }
    with sqlite3.connect(":memory:") as database:
        database.executescript(SCHEMA)
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
        there = {
            name: [column[0] for column in database.execute(f"SELECT * FROM {name}").description] for name in names
        }
    database.close()

    assert told == there
    assert str(APPLICATION_ID) in page and f"{SCHEMA_NAME}/{SCHEMA_VERSION}" in page

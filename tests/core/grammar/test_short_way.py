"""The short way for standard lines and the general way give equal records, on any stream."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddwatch.core.grammar import LogReader
from ddwatch.core.grammar.patterns import DECODE, PREFILL, WIDE
from tests.core.grammar.golden import BASE, KEY, LOGS, drain, general_reader, lines_of

FILES = sorted(LOGS.glob("*.log"))
PIECES = (
    b"[", b"]", b", ", b": ", b"\r", b"\x1b[0m", b"#", b"nan", b"Decode batch, ", b"Prefill batch, ", b" | ", b"\x00",
    b"[2026-05-01 12:00:00 TP0] ", b"2026-05-01T12:00:00Z ", b"INFO:     ", b"0", b".", b"-", b"99999999999999999999",
)  # fmt: skip


def optional(field: str) -> st.SearchStrategy[str]:
    return st.sampled_from(["", field])


counts = st.integers(0, 10**12).map(str)
fractions = st.decimals(0, 99999, places=2, allow_nan=False, allow_infinity=False).map(str)
stamps = st.sampled_from(
    ["2026-05-01 12:00:00", "2026-05-01 12:00:01", "2026-02-30 12:00:00", "2026-13-01 99:00:00", "0000-00-00 00:00:00"]
)
ranks = st.sampled_from(["", " TP0", " DP1 TP1", " DP0 TP0 EP0 PP1", " CP3", " FOO BAR", " TP"])
prefixes = st.one_of(
    st.just(""),
    st.tuples(stamps, ranks).map(lambda both: f"[{both[0]}{both[1]}] "),
    st.tuples(stamps, ranks).map(lambda both: f"svc-1  | [{both[0]}{both[1]}] "),
    st.tuples(stamps, ranks).map(lambda both: f"(Engine pid=7) [{both[0]}{both[1]}] "),
    st.tuples(stamps, ranks).map(lambda both: f"2026-05-01T12:00:00.25Z [{both[0]}{both[1]}] "),
)


@st.composite
def batch_lines(draw: st.DrawFn) -> str:
    def some(field: str) -> str:
        return draw(optional(field))

    number, share = draw(counts), draw(fractions)
    iteration, stop, full = some(f" [{draw(counts)}]"), draw(st.sampled_from(".,")), some("full ")
    end = draw(st.sampled_from(["", ",", ", "]))
    if draw(st.booleans()):
        return (
            f"{draw(prefixes)}Prefill batch{iteration}{stop} #new-seq: {number}, #new-token: {draw(counts)}, "
            f"#cached-token: {draw(counts)}, {full}token usage: {share}{some(', mamba usage: 0.2')}, #running-req: 1, "
            f"#queue-req: {number}{some(', #pending-token: 7')}{some(', npu graph: False')}"
            f"{some(f', input throughput (token/s): {share}')}{end}"
        )
    return (
        f"{draw(prefixes)}Decode batch{iteration}{stop} #running-req: {draw(counts)}, #{full}token: {number}, "
        f"{full}token usage: {share}{some(', #swa token: 5, swa token usage: 0.10')}"
        f"{some(', mamba num: 2, mamba usage: 0.06')}{some(', spec tokens: 12, spec rounds: 6')}"
        f"{some(f', accept len: {share}')}{some(', accept rate: 1.20')}{some(', spec tokens: 9, spec rounds: 3')}"
        f"{some(', pre-allocated usage: 0.00')}{some(', #prealloc-req: 0')}{some(', #transfer-req: 1')}"
        f"{some(', #retracted-req: 0')}{some(', cuda graph: True')}, gen throughput (token/s): {draw(fractions)}"
        f"{some(', largest-len: 0')}, #queue-req: {draw(counts)}{some(', est. decode TFLOPS/s (per GPU): 12.30')}"
        f"{some(', est. read BW (GB/s per GPU): 4.50')}{some(', fwd occupancy: nan%')}{end}"
    )


@settings(max_examples=150)
@given(st.lists(batch_lines(), min_size=1, max_size=8), st.sampled_from([None, 1_780_000_000.0]))
def test_standard_lines_read_alike(texts: list[str], arrived: float | None) -> None:
    lines = [text.encode() for text in texts]
    short = drain(LogReader(None, BASE, KEY), lines, arrived)
    assert short == drain(general_reader(), lines, arrived)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("arrived", [None, 1_780_000_000.0])
def test_golden_logs_read_alike(path: Path, arrived: float | None) -> None:
    lines = lines_of(path)
    assert drain(LogReader(None, BASE, KEY), lines, arrived) == drain(general_reader(), lines, arrived)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_logs_read_alike(seed: int) -> None:
    random_of = random.Random(seed)
    lines: list[bytes] = []
    for path in FILES:
        for line in lines_of(path)[:60]:
            at = random_of.randrange(len(line) + 1)
            piece = random_of.choice(PIECES)
            lines.append(line[:at] + piece + line[at + random_of.choice((0, 1, len(piece))) :])
    assert drain(LogReader(None, BASE, KEY), lines) == drain(general_reader(), lines)


def test_real_lines_take_the_short_way() -> None:
    lines = lines_of(LOGS / "real-0.5.23-standalone.log")
    batches = [line for line in lines if b"] Decode batch" in line or b"] Prefill batch" in line]
    assert len(batches) > 100
    assert all(DECODE.match(line) or PREFILL.match(line) for line in batches)
    assert WIDE.match(lines_of(LOGS / "55-pd-decode-first-line.log")[0])

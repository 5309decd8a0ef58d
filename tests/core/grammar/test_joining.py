"""Lines that belong together: envelopes in pieces, wrapped lines, tracebacks, bars, glued records."""

import base64
import json
from typing import Any

import pytest

from ddwatch.core.grammar import LogReader
from ddwatch.core.records import Crash, DecodeBatch, JitCompile, LoadProgress, PrefillBatch, Record, RequestDone, Xid
from tests.core.grammar.golden import BASE, KEY, drain, read_all

STAMP = "[2026-05-01 12:00:00 TP0] "
DECODE = "Decode batch, #running-req: 2, #token: 100, gen throughput (token/s): 50.00, #queue-req: 0"
OUTER = 1_777_636_800.0
"""2026-05-01 12:00:00 UTC."""


def kinds(records: list[Record]) -> list[str]:
    return [type(record).__name__ for record in records]


def texts(*lines: str) -> list[Record]:
    return read_all([line.encode() for line in lines])


def docker(text: str, **other: Any) -> str:
    return json.dumps({"log": text, "stream": "stderr", "time": "2026-05-01T12:00:00.25Z", **other})


def test_docker_pieces_are_joined_per_stream() -> None:
    records = texts(
        docker(STAMP + DECODE[:30]),
        docker("another line\n", stream="stdout"),
        docker(DECODE[30:60]),
        docker("2026-05-01T12:00:00.250000001Z " + DECODE[60:] + "\n"),
    )
    (batch,) = records
    assert isinstance(batch, DecodeBatch)
    assert (batch.line, batch.running, batch.queued, batch.at) == (1, 2, 0, OUTER + 0.25)


@pytest.mark.parametrize("time", ["2026-05-01T12:00:00Z", "2026-05-01T14:00:00+02:00", "2026-13-01T12:00:00Z"])
def test_docker_times(time: str) -> None:
    for line in (docker(STAMP + DECODE + "\n", time=time), docker(STAMP + DECODE + "\n", time=time).replace(", ", ",")):
        (batch,) = texts(line)
        assert batch.at == OUTER


def test_compact_docker_lines_have_the_time_of_docker() -> None:
    line = '{"log":"' + STAMP + DECODE + '\\n","stream":"stderr","time":"%s"}'
    for time, at in (("2026-05-01T12:00:00.5Z", 0.5), ("2026-05-01T12:00:00Z", 0.0), ("2026-13-01T12:00:00Z", 0.0)):
        (batch,) = texts(line % time)
        assert batch.at == OUTER + at


def test_a_piece_without_end_is_read_at_the_close_and_pieces_are_bounded() -> None:
    (batch,) = texts(docker(STAMP + DECODE))
    assert isinstance(batch, DecodeBatch)
    many = [docker("x" * 16_000, stream=f"s{index}") for index in range(200)]
    reader = LogReader(None, BASE, KEY)
    drain(reader, [line.encode() for line in many + many])
    assert sum(len(piece.text) for piece in reader._envelopes._pieces.values()) <= 4 * 65_536


def test_cri_pieces_are_joined_and_carry_their_time() -> None:
    records = texts(
        f"2026-05-01T12:00:00.5Z stderr P {STAMP}{DECODE[:40]}",
        f"2026-05-01T12:00:00.6Z stderr F {DECODE[40:]}",
        "2026-05-01T12:00:00.7Z stderr F plain",
    )
    (batch,) = records
    assert isinstance(batch, DecodeBatch)
    assert (batch.at, batch.queued) == (OUTER + 0.5, 0)


def test_a_traceback_in_envelopes() -> None:
    lines = [TRACE, "  File x", "ValueError: no", STAMP + DECODE]
    for separators in ((",", ":"), (", ", ": ")):
        wrapped = [json.dumps(json.loads(docker(line + "\n")), separators=separators) for line in lines]
        crash, batch = texts(*wrapped)
        assert isinstance(crash, Crash)
        assert (crash.reason, type(batch)) == ("ValueError: no", DecodeBatch)


def journal(message: object, **other: Any) -> str:
    return json.dumps({"MESSAGE": message, "__REALTIME_TIMESTAMP": "1777636800500000", **other})


@pytest.mark.parametrize(
    "message", [STAMP + DECODE, list((STAMP + DECODE).encode()), ["first", STAMP + DECODE], DECODE]
)
def test_journal_messages_in_all_shapes(message: object) -> None:
    (batch,) = texts(journal(message, _SYSTEMD_UNIT="sglang.service"))
    assert isinstance(batch, DecodeBatch)
    assert (batch.at, batch.rank.engine) == (OUTER + 0.5, "sglang.service")


@pytest.mark.parametrize("realtime", ["soon", "9" * 30, ""])
def test_a_journal_without_a_usable_time_falls_back_to_the_stamp(realtime: str) -> None:
    (batch,) = texts(journal(STAMP + DECODE, __REALTIME_TIMESTAMP=realtime, CONTAINER_NAME="kimi"))
    assert (batch.at, batch.rank.engine) == (OUTER, "kimi")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "line",
    [journal(None), journal(""), journal([]), journal([999]), "{}", '{"MESSAGE": 7}', '{"log": "x"}', "{", "[1]"],
)
def test_json_that_is_no_line(line: str) -> None:
    assert texts(line) == []


def test_further_lines_of_a_journal_message_never_begin_a_message() -> None:
    assert texts(journal(f"a user wrote\n{STAMP}{DECODE}\nend")) == []
    assert kinds(texts(journal(f"{STAMP}{DECODE}\n{STAMP}{DECODE}"))) == ["DecodeBatch"]
    trace = f"{TRACE}\n  File x\nValueError: no\n{STAMP}{DECODE}"
    (crash,) = texts(journal(trace))
    assert isinstance(crash, Crash)
    assert crash.reason == "ValueError: no"


TRACE = f"{STAMP}Scheduler hit an exception: Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("lines", "reason", "kind"),
    [
        (['  File "x", line 1', "    raise ValueError: deep", "ValueError: top"], "ValueError: top", "exception"),
        (["torch.OutOfMemoryError: CUDA out of memory."], "OutOfMemoryError: CUDA out of memory.", "out-of-memory"),
        (["KeyError: 'a prompt of a user'"], "KeyError: …", "exception"),
        (["AssertionError"], "AssertionError", "exception"),
        (["RuntimeError: " + "x" * 1000], "RuntimeError: " + "x" * 185 + "…", "exception"),
        (["  File x", f"{STAMP}next record"], None, "exception"),
        (["  File x"], None, "exception"),
        (["  File x"] * 450, None, "exception"),
        (["some text"] * 450, None, "exception"),
        (["  File x", DECODE], None, "exception"),
    ],
)
def test_the_reason_of_a_crash_stands_at_the_end_of_its_traceback(
    lines: list[str], reason: str | None, kind: str
) -> None:
    crash = texts(TRACE, *lines)[0]
    assert isinstance(crash, Crash)
    assert (crash.reason, crash.kind, crash.line) == (reason, kind, 1)


def test_after_the_reason_text_is_still_part_of_the_traceback() -> None:
    chained = [
        "ValueError: first",
        "",
        "During handling of the above exception, another exception occurred:",
        "KeyError: x",
    ]
    assert kinds(texts(TRACE, *chained, STAMP + DECODE)) == ["Crash", "DecodeBatch"]


def test_a_crash_comes_out_when_the_stream_is_quiet() -> None:
    reader = LogReader(None, BASE, KEY)
    assert reader.read(TRACE.encode(), 5.0, 1) == []
    assert kinds(list(reader.close())) == ["Crash"]
    assert reader.close() == []
    assert kinds(list(reader.read((STAMP + DECODE).encode(), 6.0, 2))) == ["DecodeBatch"]


def test_wrapped_decode_lines_are_joined() -> None:
    for width in (40, 60, 79):
        line = f"{STAMP}Decode batch, #running-req: 1, #token: 900, accept len: 4.80, gen throughput (token/s): 180.55"
        cut = [line[at : at + width] for at in range(0, len(line), width)]
        first = texts(*cut)[0]
        assert isinstance(first, DecodeBatch)
        assert (first.running, first.line) == (1, 1)
        if width != 79:
            continue
        assert first.accept_length == 4.8


@pytest.mark.parametrize("following", ["", "  nothing of ours", "  a: b", STAMP + "other", "x " * 9])
def test_a_decode_line_without_rate_is_not_lost(following: str) -> None:
    batch, *rest = texts("Decode batch, #running-req: 1, #token: 5,", following, DECODE)
    assert isinstance(batch, DecodeBatch)
    assert (batch.running, batch.throughput_tokens_per_second) == (1, None)
    assert kinds(rest) == ["DecodeBatch"]


def test_a_line_wrapped_too_often_ends() -> None:
    parts = [f"  key{index}: 1," for index in range(9)]
    records = texts("Decode batch, #running-req: 1,", *(part.replace("key", "#token: 1, k") for part in parts))
    assert kinds(records) == ["DecodeBatch"]


def test_cards_that_fell_off_the_bus_in_several_lines() -> None:
    named = "[ 1843.3] NVRM: The NVIDIA GPU 0000:b3:00.0"
    fallen = "NVRM: fallen off the bus and is not responding to commands."
    (xid,) = texts("NVRM: The NVIDIA GPU 0000:b3:00.0", "NVRM: (PCI ID: 10de:26b5)", fallen)
    assert isinstance(xid, Xid)
    assert (xid.code, xid.pci_bus, xid.line) == (None, "0000:b3:00.0", 1)
    assert texts("NVRM: The NVIDIA GPU 0000:b3:00.0", *["NVRM: text"] * 6, fallen) == []
    assert texts(named, STAMP + "something else", fallen) == []
    (second,) = texts("NVRM: The NVIDIA GPU 0000:b3:00.0", "NVRM: The NVIDIA GPU 0000:c4:00.0", fallen)
    assert isinstance(second, Xid)
    assert second.pci_bus == "0000:c4:00.0"
    (fault,) = texts("NVRM: The NVIDIA GPU 0000:b3:00.0", "NVRM: Xid (PCI:0000:44:00): 79, x")
    assert isinstance(fault, Xid)
    assert fault.code == 79


BAR = "Capturing batches (bs=1 avail_mem=37.00 GB):  50%|█████     | 26/52 [00:05<00:00,  9.85it/s]"


@pytest.mark.parametrize(
    "line",
    [
        BAR + STAMP + DECODE,
        f"{BAR}\r{BAR}\r{STAMP}{DECODE}",
        f"\r{STAMP}{DECODE}\r",
        f"  0%|  | 0/9 [00:00<?, ?it/s]{BAR}  {STAMP}{DECODE}",
        f"Loading:  10% Completed | 1/9 [00:00<?, ?it/s]{STAMP}{DECODE}",
        f"12it [00:01, 99.0it/s]{STAMP}{DECODE}",
        f"Capturing:  10%|██\r{STAMP}{DECODE}",
        f"Capturing:  10%|██\r\r\r{BAR}\r{STAMP}{DECODE}",
    ],
)
def test_records_behind_progress_bars(line: str) -> None:
    assert kinds(texts(line)) == ["DecodeBatch"]


def test_a_bar_may_say_something_itself() -> None:
    (jit,) = texts("DeepGEMM warmup:  12%|█▉    | 1900/16384 [00:00<00:00, 19010.49it/s]")
    assert isinstance(jit, JitCompile)


def test_a_record_glued_to_a_batch_line_is_read_too() -> None:
    first, second = texts(f"{STAMP}{DECODE}[2026-05-01 12:00:01 DP1 TP1] Prefill batch, #new-seq: 1")
    assert isinstance(first, DecodeBatch)
    assert isinstance(second, PrefillBatch)
    assert (first.queued, second.rank.dp) == (0, 1)
    (other,) = texts(f"{STAMP}Load weight begin. [2026-05-01 12:00:01] {DECODE}")
    assert isinstance(other, LoadProgress)


def test_requests_with_line_breaks_swallow_lines_without_prefix() -> None:
    begin = "[2026-05-01 12:00:00] Finish: obj=G(text='a'), out={'meta_info': {'completion_tokens': 3}, 'x': '"
    done, batch = texts(begin, DECODE, "more", STAMP + DECODE)
    assert isinstance(done, RequestDone)
    assert isinstance(batch, DecodeBatch)
    assert batch.line == 4
    # After very many lines nobody believes that this is still the same request.
    late = texts("[2026-05-01 12:00:00] Receive: obj=G(text='a", *[DECODE] * 205)
    assert len(late) == 5


def test_constant_pools() -> None:
    start = f"{STAMP}server_args=ServerArgs(enable_hisparse=True, page_size=64)"
    other = f"{STAMP}server_args=ServerArgs(page_size=7000)"
    records = texts(start, STAMP + DECODE, other, STAMP + DECODE)
    assert [record.context_flaw for record in records if isinstance(record, DecodeBatch)] == ["constant", None]


def test_equal_pools_are_only_suspicious_while_tokens_are_generated() -> None:
    def lines(rate: str) -> list[str]:
        body = f"Decode batch, #running-req: 1, #token: 100, gen throughput (token/s): {rate}"
        return [f"[2026-05-01 12:00:0{second}] {body}" for second in range(5)]

    def flaws(rate: str) -> list[Any]:
        return [record.context_flaw for record in texts(*lines(rate)) if isinstance(record, DecodeBatch)]

    assert flaws("100.00") == [None, None, "constant", "constant", "constant"]
    assert flaws("5.00") == [None] * 5


def test_pools_of_many_engines_stay_bounded() -> None:
    lines = [f"s{index} | {STAMP}server_args=ServerArgs(page_size=1)" for index in range(1100)]
    reader = LogReader(None, BASE, KEY)
    drain(reader, [line.encode() for line in lines])
    assert len(reader._pools._pages) <= 1024


def test_many_ranks_stay_bounded() -> None:
    standard = DECODE.replace("gen", "token usage: 0.10, gen")
    lines = [f"[2026-05-01 12:00:00 DP{rank}] {body}" for rank in range(3000) for body in (standard, DECODE)]
    reader = LogReader(None, BASE, KEY)
    assert len(drain(reader, [line.encode() for line in lines])) == 6000
    assert len(reader._standard._ranks) <= 1024
    assert len(reader._pools._pools) <= 1024


def test_base64_is_not_mistaken_for_anything() -> None:
    assert texts(base64.b64encode((STAMP + DECODE).encode()).decode()) == []

"""Whatever the bytes: the reader never raises, and what comes out is clean, bounded and nobody's text."""

import random
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ddwatch.core.records import DecodeBatch, PrefillBatch, Record, Unread
from tests.core.grammar.golden import LOGS, lines_of, plain, read_all, strings_of

FILES = sorted(LOGS.glob("*.log"))
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LONGEST = 1500


def assert_presentable(records: list[Record]) -> None:
    for record in records:
        for text in strings_of(plain(record)):
            assert not CONTROLS.search(text), record
            assert len(text) <= LONGEST, record


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=200).filter(lambda line: b"\n" not in line), max_size=5))
def test_random_bytes(lines: list[bytes]) -> None:
    assert_presentable(read_all(lines))


@settings(max_examples=300)
@given(st.text(max_size=300))
@example("9" * 5000)
@example("a:  10%|x\r" * 7000)
@example("a: 1[2026-05-01 12:00:00 TP0] Decode batch, " * 1500)
@example("a: " + ". " * 30_000 + "b: c")
@example(" " * 60_000 + "]")
@example("a: " + "1" * 60_000 + " ]")
@example("a: 1 [repeated 7x across " * 2500 + "]")
@example("'" * 60_000)
@example("\\'" * 30_000)
@example("\x1b]" * 30_000)
@example("NVRM: " * 9000)
@example('{"log":' * 3000)
@example("[" * 3000)
@example("Decode batch, " + "a: 1, " * 9000)
@example("Decode batch, #running-req: " + "9" * 4000 + ", #token: 1e400")
@example("(" * 70_000)
@example("server_args={" + "'a': {" * 9000)
@example("Finish: obj=" + "(" * 9000)
@example("\r" * 70_000)
@example("Capturing: 10%|" * 4000)
@example(" " * 60_000 + "x")
@example("[2026-05-01 12:00:00] " * 3000)
def test_any_text_behind_any_head(text: str) -> None:
    heads = [
        "",
        "Decode batch, ",
        "[2026-05-01 12:00:00 TP0] Prefill batch. ",
        "server_args=ServerArgs(",
        "Finish: obj=",
    ]
    lines = [(head + text).encode("utf-8", "surrogatepass").replace(b"\n", b" ") for head in heads]
    assert_presentable(read_all(lines))


@pytest.mark.parametrize("seed", range(20))
def test_flipped_and_cut_bytes_of_all_golden_logs(seed: int) -> None:
    random_of = random.Random(seed)
    for path in FILES:
        lines = []
        for line in lines_of(path)[:40]:
            damaged = bytearray(line[:8000])
            for _ in range(random_of.randrange(4)):
                if damaged:
                    damaged[random_of.randrange(len(damaged))] = random_of.randrange(256)
            begin, end = sorted((random_of.randrange(len(damaged) + 1), random_of.randrange(len(damaged) + 1)))
            lines.append(bytes(damaged) if random_of.random() < 0.5 else bytes(damaged[begin:end]))
        assert_presentable(read_all(line.replace(b"\n", b" ") for line in lines))


BATCH = (
    "[2026-05-01 12:00:00 TP0] Decode batch, #running-req: 9, #token: 9, gen throughput (token/s): 9.9, #queue-req: 0"
)
PREFILL = (
    "Prefill batch, #new-seq: 9, #new-token: 9, #cached-token: 9, token usage: 0.9, #running-req: 9, #queue-req: 9"
)


@st.composite
def user_texts(draw: st.DrawFn) -> str:
    around = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n"), max_size=30)
    middle = draw(
        st.sampled_from([BATCH, PREFILL, BATCH[26:], "'" + BATCH, '"' + PREFILL, "\r" + BATCH, "\\'" + BATCH])
    )
    bars = draw(st.sampled_from(["", "\r", "100%|███| 9/9 [00:00<00:00, 1.00it/s]", "\x1b[0m", " | ", "'), out={'"]))
    return draw(around) + bars + middle + draw(around)


@settings(max_examples=300)
@given(user_texts())
def test_user_text_is_never_a_batch_line(text: str) -> None:
    escaped = text.encode("unicode_escape").decode()
    lines = [
        f"[2026-05-01 12:00:00] Finish: obj=GenerateReqInput(text={text!r}, stream=True), out={{'meta_info': {{}}}}",
        f"[2026-05-01 12:00:00] Receive: obj=GenerateReqInput(text={text!r})",
        f"Finish: obj=GenerateReqInput(text={text!r})",
        f'[2026-05-01 12:00:00] INFO:     127.0.0.1:1 - "GET /{escaped} HTTP/1.1" 200 OK',
        f"[2026-05-01 12:00:00] Finish: obj=GenerateReqInput(text='{text}",
        f"[2026-05-01 12:00:00] user said {text}",
        f"svc | [2026-05-01 12:00:00] chat: {text}",
    ]
    for line in lines:
        records = read_all([line.encode("utf-8", "surrogatepass").replace(b"\n", b" ")])
        assert not [record for record in records if isinstance(record, (DecodeBatch, PrefillBatch, Unread))], line


def test_a_request_printed_with_line_breaks_is_text_until_the_next_prefix() -> None:
    lines = [b"[2026-05-01 12:00:00] Finish: obj=GenerateReqInput(text='first", BATCH[26:].encode(), BATCH.encode()]
    records = read_all(lines)
    assert [record.line for record in records if isinstance(record, DecodeBatch)] == [3]


def test_a_line_is_looked_at_up_to_64_kib() -> None:
    line = b"[2026-05-01 12:00:00] Decode batch, #running-req: 1, gen throughput (token/s): 5.00, x: " + b"y" * 200_000
    (record,) = read_all([line])
    assert isinstance(record, DecodeBatch)
    assert len(record.extra[0][1]) <= 64

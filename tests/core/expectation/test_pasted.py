"""What people paste is understood, what is ambiguous is said, what is missing stays missing; nothing raises."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.expectation.pasted import LONGEST, Understood, understand

LINE = (
    "[2026-05-01 12:00:00 DP1 TP0] Decode batch, #running-req: 4, #token: 23956, token usage: 0.01, accept len: 2.90, "
    "accept rate: 0.06, cuda graph: True, gen throughput (token/s): 92.20, #queue-req: 0"
)
SUMMARY = """
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 16
Successful requests:                     100
Benchmark duration (s):                  30.50
Total input tokens:                      102400
Total generated tokens:                  51200
Request throughput (req/s):              3.28
Input token throughput (tok/s):          3357.38
Output token throughput (tok/s):         1678.69
Concurrency:                             14.90
Accept length:                           2.90
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   4500.00
---------------Time to First Token----------------
Mean TTFT (ms):                          450.00
==================================================
"""


def read(text: str) -> dict[str, Any]:
    """The figures that were understood."""
    found = msgspec.to_builtins(understand(text))
    for name in ("kind", "scope", "derived", "notes", "missed"):
        del found[name]
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("3239/2750 tok 32.2 t/s", {"prompt_tokens": 3239, "completion_tokens": 2750, "tokens_per_second": 32.2}),
        (
            "32.2 t/s | 3239 / 2750 tokens",
            {"prompt_tokens": 3239, "completion_tokens": 2750, "tokens_per_second": 32.2},
        ),
        ("32 tok/s at 6k ctx", {"tokens_per_second": 32.0, "context_tokens": 6000}),
        ("32 tok/s at 6k", {"tokens_per_second": 32.0, "context_tokens": 6000}),
        ("ctx 6k, 32tps, accept 2.9", {"tokens_per_second": 32.0, "context_tokens": 6000, "accept_length": 2.9}),
        ("I get 32 tokens per second at 6,000 tokens of context", {"tokens_per_second": 32.0, "context_tokens": 6000}),
        ("Speed: 32,2 tok/s, context: 5.99K", {"tokens_per_second": 32.2, "context_tokens": 5990}),
        ("31.25 ms/tok at 6k context, bs=4", {"tokens_per_second": 32.0, "context_tokens": 6000, "batch": 4}),
        ("5 tok/s at 2k, 8 running requests", {"tokens_per_second": 5.0, "context_tokens": 2000, "batch": 8}),
        ("2.9 tok/step, 32 tok/s at 6k", {"accept_length": 2.9, "tokens_per_second": 32.0, "context_tokens": 6000}),
        (
            "generated 2750 tokens at 32.2 tok/s, prompt was 3239",
            {"prompt_tokens": 3239, "completion_tokens": 2750, "tokens_per_second": 32.2},
        ),
        ("12:30:05 2026-05-01 32 tok/s at 6k", {"tokens_per_second": 32.0, "context_tokens": 6000}),
    ],
)
def test_free_text(text: str, figures: dict[str, Any]) -> None:
    assert read(text) == pytest.approx(figures)
    assert understand(text).missed == ()


@pytest.mark.parametrize(
    "text",
    [
        "prompt 3239 completion 2750 in 85.4 s",
        "prompt_tokens: 3239, completion_tokens: 2750, 85.4 seconds",
        "3,239 prompt tokens, 2,750 completion tokens, took 85.4s",
        "3239 input tokens and 2750 output tokens in 1 min 25.4 s",
        '"usage": {"prompt_tokens": 3239, "completion_tokens": 2750}, elapsed 85400 ms',
        '{"usage": {"prompt_tokens": 3239, "completion_tokens": 2750}, "elapsed": 85.4}',
        '[{"text": "x", "meta_info": {"prompt_tokens": 3239, "completion_tokens": 2750, "e2e_latency": 85.4}}]',
        '{"timings": {"prompt_n": 3239, "predicted_n": 2750, "predicted_ms": 85400.0}}',
    ],
)
def test_tokens_and_seconds_give_the_rate_and_say_that_prefill_is_in_it(text: str) -> None:
    found = understand(text)
    assert (found.prompt_tokens, found.completion_tokens) == (3239, 2750)
    assert found.seconds == pytest.approx(85.4)
    assert found.tokens_per_second == pytest.approx(32.2, abs=0.01)
    assert found.derived
    assert "prefill included" in found.notes[-1]


def test_which_of_a_pair_is_the_prompt_is_said() -> None:
    assert understand("3239/2750 tok 32.2 t/s").notes == ("3239/2750 taken as prompt/completion",)


def test_usage_alone_is_understood_and_has_no_rate() -> None:
    found = understand('{"usage": {"prompt_tokens": 3239, "completion_tokens": 2750, "total_tokens": 5989}}')
    assert found.kind == "usage-json"
    assert found.tokens_per_second is None
    assert found.sentence() == "understood 3239 prompt tokens, 2750 completion tokens"


def test_an_sglang_answer_tells_its_accept_length() -> None:
    text = (
        '{"meta_info": {"prompt_tokens": 50, "completion_tokens": 100, "e2e_latency": 2.0, "spec_accept_length": 2.5},'
        '"text": "ignored 99 tok/s"}'
    )
    assert read(text) == pytest.approx(
        {"prompt_tokens": 50, "completion_tokens": 100, "seconds": 2.0, "accept_length": 2.5, "tokens_per_second": 50.0}
    )


def test_a_decode_line_is_the_rate_of_all_its_requests() -> None:
    found = understand(LINE)
    assert (found.kind, found.scope) == ("decode-line", "service")
    assert (found.batch, found.context_tokens, found.accept_length) == (4, 5989, 2.9)
    assert found.tokens_per_second == 92.2
    alone = understand(LINE.replace("#running-req: 4", "#running-req: 1"))
    assert (alone.batch, alone.context_tokens, len(alone.notes)) == (1, 23956, 1)
    assert understand(LINE + "\n" + LINE).missed == ("decode lines after the first",)
    assert understand("gen throughput (token/s): 5.00").contexts() is None


@pytest.mark.parametrize("source", ["table", "json"])
def test_a_benchmark_is_the_rate_of_its_mean_concurrency(source: str) -> None:
    document = {
        "duration": 30.5,
        "completed": 100,
        "total_input_tokens": 102400,
        "total_output_tokens": 51200,
        "output_throughput": 1678.69,
        "concurrency": 14.9,
        "accept_length": 2.9,
        "mean_ttft_ms": 450.0,
        "mean_e2e_latency_ms": 4500.0,
    }
    found = understand(SUMMARY if source == "table" else msgspec.json.encode(document).decode())
    assert (found.kind, found.scope) == ("benchmark", "service")
    assert (found.prompt_tokens, found.completion_tokens, found.batch) == (1024, 512, 15)
    assert found.tokens_per_second == pytest.approx(1678.69)
    assert found.accept_length == 2.9
    assert (found.prefill_seconds, found.seconds) == (0.45, 4.5)
    assert found.contexts() == (1024, 1536)


def test_of_several_json_lines_the_last_is_read_and_said() -> None:
    line = '{"output_throughput": 100.0, "completed": 2, "total_input_tokens": 10, "total_output_tokens": 20}'
    found = understand(line + "\n" + line.replace("100.0", "200.0"))
    assert found.tokens_per_second == 200.0
    assert found.missed == ("the 1 JSON lines before the last",)


@pytest.mark.parametrize(
    ("text", "missed"),
    [
        ("-5 tok/s at 6k", ("a rate of -5 tok/s",)),
        ("0 t/s at 6k ctx", ("a rate of 0 tok/s",)),
        ("NaN tok/s at 6k ctx", ("a rate of NaN",)),
        ("inf tok/s at 6k ctx", ("a rate of inf",)),
        ("32 tok/s at 0 ctx", ("a context of 0",)),
        ("32 tok/s, 40 tok/s at 6k", ("a second rate, 40 tok/s",)),
        ("32 tok/s at 6k, gpu 5 hot", ("'5 hot'",)),
        ("99999999999 tok/s at 6k", ("a rate of 1e+11 tok/s",)),
        ("32 tok/s at 6k batch 0", ("a batch of 0",)),
        (
            '{"usage": {"prompt_tokens": -3, "completion_tokens": 0}, "elapsed": -1}',
            ("a prompt of -3", "a completion of 0", "a duration of -1 s"),
        ),
    ],
)
def test_what_cannot_be_is_named_and_not_used(text: str, missed: tuple[str, ...]) -> None:
    assert understand(text).missed == missed


def test_a_rate_that_contradicts_its_own_tokens_and_seconds_is_remarked() -> None:
    found = understand("2750 completion tokens in 85.4 s, 99 tok/s at 6k")
    assert found.tokens_per_second == 99.0
    assert any("would be 32.2 tok/s, not 99" in note for note in found.notes)
    assert understand("2750 completion tokens in 85.4 s, 32.2 tok/s at 6k").notes == ()
    agreeing = understand("prompt 100, completion 1000 in 12 s, ttft 2 s, 100 tok/s")
    assert agreeing.tokens_per_second == 100.0
    assert agreeing.notes == ()
    assert agreeing.prefill_seconds == 2.0


def test_prompt_and_completion_say_more_than_one_context() -> None:
    found = understand("3239/2750 tok 32.2 t/s at 6k ctx")
    assert found.context_tokens is None
    assert found.contexts() == (3239, 5989)
    assert "left aside" in found.notes[-1]


def test_what_says_nothing_is_said_to_say_nothing() -> None:
    for text in ("", "   ", "hello", "<html><body>bad</body></html>", "{}", "[]", "null", '{"error": "x"}', "{broken"):
        found = understand(text)
        assert found == Understood(kind=found.kind), text
        assert found.sentence() == "understood nothing"
    assert understand("prompt 5").contexts() == (5, 5)


def test_numbers_beyond_all_measure_are_named() -> None:
    found = understand('{"prompt_tokens": ' + "9" * 400 + ', "completion_tokens": 1e300}')
    assert found.missed == ("a prompt of 1e+300", "a completion of 1e+300")
    assert understand("prompt " + "9" * 400).prompt_tokens is None


def test_a_huge_paste_is_read_in_part_and_quickly() -> None:
    found = understand("32 tok/s at 6k " + "1/2 " * 100_000)
    assert found.tokens_per_second == 32.0
    assert f"everything after {LONGEST} characters" in found.missed


WORDS = (
    "32|3239/2750|tok/s|t/s|6k|ctx|context|prompt|completion|in|s|ms|/|-|:|=|accept|len|NaN|inf|1e9|{|}|usage|,|.|0|at|"
    "batch|\x1b[31m|tok|ttft|#running-req:|#token:|\n|gen throughput (token/s):|Output token throughput (tok/s):|"
)
PIECES = st.sampled_from([*WORDS.split("|"), "9" * 30])


@given(st.lists(st.tuples(PIECES, st.sampled_from(["", " "])), max_size=40))
def test_no_mixture_of_known_pieces_makes_it_raise(pieces: list[tuple[str, str]]) -> None:
    found = understand("".join(piece + gap for piece, gap in pieces))
    assert found.tokens_per_second is None or found.tokens_per_second > 0.0
    assert found.sentence().isprintable()
    assert all(note.isprintable() for note in found.notes)


@given(st.text(max_size=300))
def test_no_text_makes_it_raise(text: str) -> None:
    assert understand(text).sentence().isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["usage", "prompt_tokens", "completion_tokens", "e2e_latency", "output_throughput", "completed", "x"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_no_json_makes_it_raise(document: Any) -> None:
    understand(msgspec.json.encode(document).decode() if not isinstance(document, int) else str(document))


def test_the_sentence_names_everything_that_was_understood() -> None:
    found = understand("32 tok/s at 6k ctx, batch 4, accept 2.9, 3 s")
    assert found.sentence() == "understood 6000 tokens of context, 32 tok/s, 3 s, accept length 2.9, batch 4"


@pytest.mark.parametrize(
    ("text", "missed"),
    [
        ("3239/2750 and 1/2, 32 tok/s", ("'1/2'",)),
        ("32 tok/s, 5 ms/tok at 6k", ("'5 ms/tok'",)),
        ("1 min 5 s or 2 min 6 s, 32 tok/s at 6k", ("'2 min'", "'6 s'")),
        ("85 s and 1 min 5 s, 32 tok/s at 6k", ("'85 s'",)),
        ("context 5k context 6k 32 tok/s", ("'6k'",)),
        ("ttft 5 ms ttft 6 ms 32 tok/s at 6k", ()),
    ],
)
def test_what_is_said_twice_is_taken_once_and_the_rest_is_named(text: str, missed: tuple[str, ...]) -> None:
    found = understand(text)
    assert found.tokens_per_second == 32.0
    assert found.missed == missed


def test_a_summary_in_part() -> None:
    found = understand("Successful requests: 1.2.3\nOutput token throughput (tok/s): 100.0\n")
    assert (found.kind, found.tokens_per_second, found.contexts(), found.batch) == ("benchmark", 100.0, None, None)
    assert understand("Output token throughput (tok/s): 100.0\nConcurrency: -1.0\n").missed == ("a batch of -1",)


def test_json_lines_with_blank_lines_and_one_that_is_broken() -> None:
    line = '{"usage": {"prompt_tokens": 5, "completion_tokens": 7}, "elapsed": 1.0}'
    assert understand(line + "\n\n" + line).tokens_per_second == 7.0
    assert understand(line + "\n{broken").completion_tokens == 7, "read as text then"

"""The pages of ten releases, a captured one, and pages that no server should send."""

from pathlib import Path

import pytest
from ddwatch_sidecar.sources import metrics_page
from ddwatch_sidecar.sources.metrics_page import PageUnreadable, read_page
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.engine import RankMetrics

GOLDEN = Path(__file__).parents[2] / "golden"
RELEASES = sorted((GOLDEN / "metrics_pages").glob("*.prom"))
"""What the collectors of published releases print for 3 running, 2 queued, 25 % of the pool in use."""


def only(text: str) -> RankMetrics:
    (rank,) = read_page(text.encode(), 5.0).ranks
    return rank


def test_there_are_pages_of_many_releases() -> None:
    assert {path.stem for path in RELEASES} >= {
        "0.4.3",
        "0.4.8",
        "0.5.1",
        "0.5.6",
        "0.5.8",
        "0.5.12",
        "0.5.18",
        "0.5.23",
    }


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("spelling", ["sglang:", "sglang_"])
def test_each_release_is_read_in_either_spelling(path: Path, spelling: str) -> None:
    rank = only(path.read_text().replace("sglang:", spelling))
    assert (rank.running, rank.queued, rank.token_usage) == (3, 2, 0.25)
    if path.stem != "0.3.6":
        assert rank.accept_length == 3.4
    counted = path.stem in ("0.5.8", "0.5.10", "0.5.12", "0.5.18", "0.5.23")
    assert rank.dp_rank == (0 if counted else None)
    assert rank.total_context_tokens == (18211 if counted else None)
    assert (rank.decode_tokens, rank.prefill_tokens) == ((1200.0, 700.0) if counted else (None, None))
    assert (rank.graph_passes, rank.plain_passes) == ((1.0, 0.0) if counted else (None, None))
    assert rank.retracted is None, "a counter is not on the page before its first count"


def test_a_captured_page_of_a_real_server() -> None:
    reading = read_page((GOLDEN / "real_sglang" / "ngram-metrics.txt").read_bytes(), 7.0)
    assert reading.at == 7.0
    assert reading.ranks == (
        RankMetrics(
            running=0,
            queued=0,
            token_usage=0.0,
            total_context_tokens=52,
            accept_length=6.0,
            decode_tokens=614.0,
            prefill_tokens=168.0,
            graph_passes=0.0,
            plain_passes=115.0,
        ),
    )


def test_of_the_tp_ranks_of_a_dp_rank_one_speaks() -> None:
    def line(dp: int, tp: int, pp: int, value: int) -> str:
        return f'sglang:num_running_reqs{{dp_rank="{dp}",pp_rank="{pp}",tp_rank="{tp}"}} {value}\n'

    page = line(1, 5, 0, 9) + line(1, 4, 0, 2) + line(0, 1, 0, 9) + line(0, 0, 0, 1) + line(0, 0, 1, 9)
    assert [(rank.dp_rank, rank.running) for rank in read_page(page.encode(), 0.0).ranks] == [(0, 1), (1, 2)]


def test_a_part_of_the_queue_is_not_the_queue() -> None:
    page = (
        'sglang:num_queue_reqs{priority="1"} 9\n'
        'sglang:num_queue_reqs{priority=""} 4\n'
        'sglang:num_queue_reqs{priority="7"} 3\n'
    )
    assert only(page).queued == 4


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_what_is_no_count_is_not_reported(value: str) -> None:
    rank = only(f"sglang:num_running_reqs 1\nsglang:num_queue_reqs {value}\n")
    assert (rank.running, rank.queued) == (1, None)


def test_without_speculation_there_is_no_accept_length() -> None:
    assert only("sglang:num_running_reqs 1\nsglang:spec_accept_length 0.0\n").accept_length is None


def test_a_server_that_has_just_begun_tells_of_no_rank() -> None:
    assert read_page(b'sglang:http_requests_total{endpoint="/health"} 1\n', 0.0).ranks == ()


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (b"", "nothing of SGLang"),
        (b"<html>\xff</html>", "nothing of SGLang"),
        (b"vllm:num_requests_running 1\n", "nothing of SGLang"),
        (b"sglang:num_running_reqs one\n", "not Prometheus text"),
        (b'sglang:num_running_reqs{dp_rank="x"} 1\n', "not Prometheus text"),
        (b'sglang:num_running_reqs{dp_rank="1} 1\n', "not Prometheus text"),
    ],
)
def test_what_is_not_sglangs_page_is_one_sentence(page: bytes, said: str) -> None:
    with pytest.raises(PageUnreadable, match=said):
        read_page(page, 0.0)


def test_far_too_much_is_not_read() -> None:
    series = b"".join(b'sglang:num_running_reqs{dp_rank="%d"} 1\n' % rank for rank in range(300))
    with pytest.raises(PageUnreadable, match="more than 256 DP ranks"):
        read_page(series, 0.0)
    with pytest.raises(PageUnreadable, match="more than 8192 series"):
        read_page(b"sglang:num_running_reqs 1\n" * 9000, 0.0)
    long = b'sglang:num_running_reqs{model_name="' + b"m" * 5000 + b'"} 1\n'
    assert read_page(long, 0.0).ranks == ()
    assert metrics_page.LINE_BYTES < 5000


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_any_bytes_are_read_or_refused(tails: list[bytes]) -> None:
    try:
        read_page(b"\n".join(b"sglang:num_running_reqs" + tail for tail in tails), 0.0)
    except PageUnreadable:
        return

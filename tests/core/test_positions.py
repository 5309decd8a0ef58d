"""A sample is contaminated by what stands between two decode lines, never by its size."""

import pytest

from ddwatch.core.positions import STEADY_SAMPLES, Positions
from ddwatch.core.records import (
    Gap,
    JitCompile,
    LinesSeen,
    LoadProgress,
    Rank,
    Record,
    ServerReady,
    ServerStop,
    Unread,
)
from ddwatch.core.snapshot import Sample
from tests.core.lines import STEP, decode, last_of_request, prefill, start


def samples(*records: Record) -> list[Sample]:
    """The samples of these records in order."""
    positions = Positions()
    return [sample for record in records if (sample := positions.see(record)) is not None]


def flags(*records: Record) -> list[tuple[str, ...]]:
    """The flags of the samples of these records."""
    return [sample.flags for sample in samples(*records)]


def test_only_the_first_line_of_a_steady_run_is_contaminated() -> None:
    assert flags(decode(0), decode(1, tokens=1040), decode(2, tokens=1080)) == [("first",), (), ()]


def test_step_time_comes_from_one_line() -> None:
    (sample,) = samples(decode(0, running=4, accept=2.5, throughput=200.0, tokens=4000))
    assert sample.step_seconds == pytest.approx(4 * 2.5 / 200.0)
    assert sample.context_tokens == 1000
    assert sample.provenance == "log"
    assert sample.span == "step"


def test_two_lines_of_one_second_need_no_clock() -> None:
    first, second = samples(decode(5.0), decode(5.0, tokens=1003))
    assert second.step_seconds == pytest.approx(STEP)
    assert first.step_seconds == pytest.approx(STEP)


def test_a_prefill_between_two_lines_is_inside_the_window() -> None:
    assert flags(decode(0), prefill(0.5, running=1), decode(1, tokens=1600), decode(2, tokens=1640)) == [
        ("first",),
        ("prefill",),
        (),
    ]


def test_a_prefill_on_an_idle_rank_means_that_the_window_spans_idle_time() -> None:
    assert flags(decode(0), prefill(9, running=0), decode(10, tokens=900))[1] == ("idle", "prefill", "request-ended")


def test_a_window_that_was_half_idle_is_excluded_although_its_value_is_plausible() -> None:
    lines = (decode(0), last_of_request(1), prefill(2), decode(3, throughput=53.9), decode(4, throughput=100.0))
    assert flags(*lines)[2:] == [("idle", "prefill"), ()]


def test_the_last_line_of_a_request_is_marked_and_its_context_is_unknown() -> None:
    ended = samples(decode(0), last_of_request(1))[1]
    assert ended.flags == ("request-ended",)
    assert ended.total_context_tokens is None
    assert ended.context_tokens is None


def test_a_falling_token_count_at_an_equal_batch_is_an_ended_request() -> None:
    assert flags(decode(0, running=2, tokens=9000), decode(1, running=2, tokens=5000))[1] == ("request-ended",)


def test_a_changed_batch_is_not_the_mean_of_its_window() -> None:
    assert flags(decode(0, running=1), decode(1, running=2, tokens=2000))[1] == ("batch-changed",)
    assert flags(decode(0, running=2), decode(1, running=1, tokens=1500))[1] == ("batch-changed", "request-ended")


def test_constant_tokens_are_not_the_context() -> None:
    sample = samples(decode(0, tokens=20800, flaw="constant"))[0]
    assert sample.total_context_tokens is None


def test_lost_lines_contaminate_the_next_line_of_every_rank() -> None:
    gap = Gap(at=1, source="log", reason="truncated", detail="lines lost")
    lines = (decode(0, dp=0), decode(0, dp=1), gap, decode(2, dp=0), decode(2, dp=1), decode(3, dp=0))
    assert flags(*lines) == [("first",), ("first",), ("gap",), ("gap",), ()]


def test_an_unread_line_is_a_lost_line() -> None:
    unread = Unread(at=1, head="Decode batch", example="#running-req: #")
    assert flags(decode(0), unread, decode(2))[1] == ("gap",)


def test_missing_forward_passes_are_lost_lines() -> None:
    lines = [decode(i, iteration=40 * (i + 1), tokens=1000 + i) for i in range(3)]
    assert flags(*lines, decode(9, iteration=284, tokens=2000))[-1] == ("gap",)


def test_a_prefill_pass_is_not_a_lost_line() -> None:
    lines = [decode(i, iteration=40 * (i + 1), tokens=1000 + i) for i in range(3)]
    assert flags(*lines, prefill(3.5, running=1), decode(4, iteration=161, tokens=2000))[-1] == ("prefill",)


def test_dp_ranks_that_step_together_share_a_prefill() -> None:
    lines = (decode(0, dp=0), decode(0, dp=1), prefill(0.5, running=1, dp=1), decode(1, dp=0, tokens=1010))
    assert flags(start(-9, enable_dp_attention=True), *lines)[-1] == ("prefill", "warming")
    assert flags(*lines)[-1] == ("prefill",)
    assert flags(start(-9, enable_dp_attention=False), *lines)[-1] == ("warming",)


def test_each_dp_rank_has_its_own_first_line() -> None:
    assert flags(decode(0, dp=0, tp=0), decode(0, dp=3, tp=3)) == [("first",), ("first",)]


def test_tensor_and_pipeline_copies_are_not_samples() -> None:
    assert samples(decode(0, tp=1), decode(0, pp=1)) == []
    assert len(samples(decode(0, tp=0, pp=0))) == 1


def test_two_engines_in_one_stream_are_apart() -> None:
    assert flags(decode(0, engine="a"), decode(0, engine="b"), decode(1, engine="a", tokens=1001)) == [
        ("first",),
        ("first",),
        (),
    ]


def test_without_prefill_lines_a_long_silence_is_idle_time() -> None:
    lines = [decode(i, tokens=1000 + i) for i in range(3)]
    assert flags(*lines, decode(60, tokens=1003))[-1] == ("idle",)
    assert flags(prefill(-1), *lines, decode(60, tokens=1003))[-1] == ()


def test_without_speculation_one_token_is_committed_per_step() -> None:
    (sample,) = samples(decode(0, accept=None, running=8, throughput=186.6))
    assert sample.accept_length is None
    assert sample.step_seconds == pytest.approx(8 / 186.6)


def test_a_missing_accept_length_under_speculation_leaves_the_step_unknown() -> None:
    sample = samples(start(0, speculative_algorithm="EAGLE"), decode(1, accept=None))[0]
    assert sample.step_seconds is None
    plain = samples(start(0, speculative_algorithm=None), decode(1, accept=None))[0]
    assert plain.step_seconds is not None


def test_a_fork_that_counts_rounds_gives_the_accept_length() -> None:
    (sample,) = samples(decode(0, accept=None, throughput=None, spec_tokens=12, spec_rounds=6, running=None))
    assert sample.accept_length == 2.0
    assert sample.step_seconds is None


@pytest.mark.parametrize(("running", "throughput"), [(1, 0.0), (0, 5.0), (None, 5.0), (1, -3.0)])
def test_a_step_time_is_never_made_of_zeros(running: int | None, throughput: float) -> None:
    assert samples(decode(0, running=running, throughput=throughput))[0].step_seconds is None
    assert samples(decode(0, accept=0.0, throughput=1.0))[0].step_seconds is None


def warm_up(steps: list[float], every: float = 2.0) -> list[tuple[str, ...]]:
    """Flags after a start, for windows of these step times."""
    lines = [decode(i * every, step=step, tokens=1000 + i) for i, step in enumerate(steps)]
    return flags(start(-2), ServerReady(at=-1), *lines)


def test_warm_up_ends_when_the_rate_is_stable() -> None:
    seen = warm_up([STEP] * 9)
    assert seen[0] == ("first", "warming")
    assert seen[1 : STEADY_SAMPLES + 1] == [("warming",)] * STEADY_SAMPLES
    assert seen[STEADY_SAMPLES + 1 :] == [(), ()]


def test_warm_up_lasts_while_the_service_is_still_speeding_up() -> None:
    falling = [1.0, 0.6, 0.4, 0.3, 0.2, 0.15, 0.11, 0.08, 0.06]
    assert all("warming" in seen for seen in warm_up(falling))
    assert warm_up(falling + [0.03] * 12)[-1] == ()


def test_many_level_steps_end_it_without_seconds_but_falling_ones_do_not() -> None:
    assert warm_up([STEP] * 60, every=0.03)[-1] == ()
    falling = [0.130 - 0.00025 * i for i in range(300)]
    assert all("warming" in seen for seen in warm_up(falling, every=0.1))


def test_warm_up_is_not_prolonged_by_growing_context() -> None:
    assert warm_up([0.03 * 1.05**i for i in range(9)])[-1] == ()


def test_a_compilation_while_serving_warms_again() -> None:
    positions = Positions()
    for i in range(3):
        positions.see(decode(i, tokens=1000 + i))
    positions.see(JitCompile(at=3, what="_fwd_kernel"))
    sample = positions.see(decode(4, tokens=1004))
    assert sample is not None
    assert sample.flags == ("warming",)
    assert positions.warming()


def test_loading_weights_without_seen_arguments_is_a_start() -> None:
    lines = (decode(0), LoadProgress(at=1, phase="weights-begin"), ServerReady(at=2), decode(3))
    assert flags(*lines)[1] == ("first", "warming")


def test_a_stop_forgets_the_windows() -> None:
    assert flags(decode(0), ServerStop(at=1), decode(9))[1] == ("first",)


def test_the_log_interval_comes_from_the_arguments() -> None:
    positions = Positions()
    assert positions.log_interval(None) is None
    positions.see(start(0, decode_log_interval=40))
    assert positions.log_interval(None) == 40
    positions.see(start(1, decode_log_interval=0))
    assert positions.log_interval(None) is None


def test_other_records_are_no_samples() -> None:
    assert samples(LinesSeen(at=0, source="log", lines=3)) == []
    assert samples(decode(0, dp=1), Unread(at=1, rank=Rank(engine="other"), head="x", example="y")) != []

"""The truth of the simulated service holds the founding figures and proper distributions."""

import itertools
import math
from random import Random
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.demo.physics import (
    BLOCK_SIZE,
    GRAPH_SIZES,
    NOISE_MEMORY,
    NOISE_SIGMA,
    TEXT_CLASSES,
    Noise,
    TextClass,
    padded,
    prefill_seconds,
    step_seconds,
    text_class,
)


@pytest.mark.parametrize(("context", "seconds"), [(64, 0.029), (1024, 0.034), (3072, 0.065), (5500, 0.144)])
def test_one_request_has_the_founding_step_times(context: int, seconds: float) -> None:
    assert step_seconds(1, context) == pytest.approx(seconds)


def test_the_remembered_rate_and_the_reported_one_follow_from_them() -> None:
    assert 7.4 / step_seconds(1, 2300) == pytest.approx(138, rel=0.02)
    reported = [2.9 / step_seconds(1, context) for context in range(3239, 5990)]
    assert min(reported) < 32.2 < max(reported)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 40000), st.integers(0, 40000))
def test_a_step_never_gets_shorter_with_batch_or_context(b1: int, b2: int, c1: int, c2: int) -> None:
    low, high = sorted((b1, b2))
    short, long = sorted((c1, c2))
    assert step_seconds(low, short) <= step_seconds(high, long)


def test_batches_are_padded_to_captured_sizes() -> None:
    assert [padded(batch) for batch in (1, 3, 5, 9, 13, 17, 25, 32, 33)] == [1, 4, 8, 12, 16, 24, 32, 32, 33]
    assert step_seconds(5, 4000) == step_seconds(8, 4000)
    assert len(set(GRAPH_SIZES)) == len(GRAPH_SIZES)


def test_prefill_costs_more_behind_a_long_context() -> None:
    assert prefill_seconds(8192, 0) < prefill_seconds(8192, 60000)


@pytest.mark.parametrize("text", TEXT_CLASSES, ids=lambda text: text.name)
def test_accept_lengths_are_whole_and_have_the_stated_mean(text: TextClass) -> None:
    random = Random(7)
    drawn = [text.draw(random) for _ in range(40_000)]
    assert {type(length) for length in drawn} == {int}
    assert min(drawn) == 1 and max(drawn) == BLOCK_SIZE
    error = math.sqrt(text.variance / len(drawn))
    assert abs(fmean(drawn) - text.mean) < 4 * error
    assert stdev(drawn) == pytest.approx(math.sqrt(text.variance), rel=0.03)


def test_the_classes_have_the_means_of_the_founding_incident() -> None:
    assert [(text.name, round(text.mean, 6)) for text in TEXT_CLASSES] == [
        ("predictable", 7.4),
        ("code", 5.2),
        ("reasoning", 2.9),
    ]


@given(st.floats(1.01, 15.9), st.integers(0, 2**32))
def test_any_mean_inside_the_block_can_be_had(mean: float, seed: int) -> None:
    text = text_class("any", mean)
    assert text.mean == pytest.approx(mean, abs=1e-6)
    assert 1 <= text.draw(Random(seed)) <= BLOCK_SIZE


@pytest.mark.parametrize("mean", [0.5, 1, 16, 20])
def test_a_mean_outside_the_block_is_refused(mean: float) -> None:
    with pytest.raises(ValueError, match="between 1 and the block size 16"):
        text_class("any", mean)


def test_noise_is_small_and_has_a_short_memory() -> None:
    noise = Noise(Random(3))
    levels = [math.log(noise.factor()) for _ in range(20_000)]
    assert stdev(levels) == pytest.approx(NOISE_SIGMA, rel=0.05)
    lagged = fmean(a * b for a, b in itertools.pairwise(levels)) / stdev(levels) ** 2
    assert lagged == pytest.approx(NOISE_MEMORY, abs=0.03)

"""A rate over a stretch is that of its clean samples, weighed by their tokens, and absent where it is not certain."""

import pytest

from ddwatch.core.snapshot import Flag, Provenance, Sample
from ddwatch.core.witnessed_rate import SECONDS_KEPT, WitnessedRate


def sample(
    at: float,
    throughput: float | None,
    *,
    accept: float | None = 3.0,
    flags: tuple[Flag, ...] = (),
    provenance: Provenance = "log",
    steps: int | None = None,
) -> Sample:
    return Sample(
        at=at, batch=2, accept_length=accept, throughput=throughput, flags=flags, provenance=provenance, steps=steps
    )


def rate(*samples: Sample) -> WitnessedRate:
    made = WitnessedRate()
    for one in samples:
        made.see(one)
    return made


def test_it_is_tokens_over_time_and_no_mean_of_rates() -> None:
    """Two lines of 6 and 18 tokens that took 0.1 s each."""
    told = rate(sample(0.0, 1.0), sample(10.0, 60.0, accept=3.0), sample(11.0, 180.0, accept=9.0))
    assert told.mean(5.0, 20.0) == pytest.approx(24 / 0.2)
    assert told.mean(5.0, 10.5) == pytest.approx(60.0)


def test_a_sample_of_many_steps_counts_as_many() -> None:
    told = rate(
        sample(0.0, 1.0, provenance="moments"),
        sample(2.0, 60.0, provenance="moments", steps=30),
        sample(4.0, 30.0, provenance="moments", steps=15),
    )
    assert told.mean(1.0, 5.0) == pytest.approx(45 / (30 / 60 + 15 / 30))


def test_without_speculation_a_step_is_a_token() -> None:
    assert rate(sample(0.0, 1.0), sample(2.0, 40.0, accept=None)).mean(1.0, 3.0) == pytest.approx(40.0)


def test_contaminated_samples_are_left_out_and_too_many_of_them_tell_nothing() -> None:
    clean = [sample(1.0 + second, 60.0) for second in range(9)]
    told = rate(sample(0.0, 1.0), *clean, sample(12.0, 5.0, flags=("idle",)))
    assert told.mean(0.5, 13.0) == pytest.approx(60.0)
    told.see(sample(13.0, 5.0, flags=("prefill",)))
    told.see(sample(14.0, 5.0, flags=("prefill",)))
    assert told.mean(0.5, 15.0) is None


def test_who_was_not_there_throughout_says_nothing() -> None:
    told = rate(sample(10.0, 60.0), sample(12.0, 60.0))
    assert told.mean(9.0, 20.0) is None
    assert told.mean(10.0, 20.0) == pytest.approx(60.0)
    assert told.mean(20.0, 30.0) is None
    assert WitnessedRate().mean(0.0, 9.0) is None
    told.see(sample(14.0, 30.0, provenance="moments"))
    assert told.mean(10.0, 20.0) is None, "another witness"


def test_what_is_kept_is_bounded() -> None:
    told = rate(*(sample(0.1 * number, 60.0) for number in range(10_000)))
    assert told.mean(0.0, 1000.0) == pytest.approx(60.0)
    assert len(told._seconds) == SECONDS_KEPT

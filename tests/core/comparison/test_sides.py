"""One side of a comparison stays bounded, keeps its whole time, and its sums are exact."""

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.comparison.sides import MOST_CELLS, MOST_READINGS, Side, cell_of
from ddwatch.core.snapshot import Sample
from tests.core.comparison.service import Service, side


def sample(at: float, batch: int, total: int, step: float = 0.05) -> Sample:
    return Sample(
        at=at,
        batch=batch,
        total_context_tokens=total,
        context_tokens=total / batch,
        accept_length=3.0,
        throughput=batch * 3.0 / step,
        step_seconds=step,
    )


def test_a_long_side_is_thinned_evenly_and_counts_all() -> None:
    found = Side()
    for number in range(20_000):
        found.see(sample(float(number), 1, 2000))
    kept = [reading.at for reading in found.readings()]

    assert found.clean == 20_000
    assert 100 <= len(kept) <= 256
    assert kept == sorted(kept)
    assert kept[0] < 500 and kept[-1] > 19_500
    assert found.sums.tokens == 60_000.0


def test_many_loads_stay_bounded() -> None:
    found = Side()
    for number in range(40_000):
        found.see(sample(float(number), 1 + number % 300, 300 * (1 + number * 7919 % 9973)))

    assert len(found.cells()) <= MOST_CELLS
    assert sum(1 for _ in found.readings()) <= MOST_READINGS


@given(st.integers(1, 5000), st.floats(1.0, 1e8))
def test_a_cell_is_narrow(batch: int, total: float) -> None:
    cell = cell_of("log", batch, total)

    assert cell == cell_of("log", batch, total)
    assert cell != cell_of("log", batch, max(total, 256.0) * 1.2001)
    assert cell != cell_of("log", batch + max(1, batch // 12), total)
    assert cell != cell_of("moments", batch, total)


def test_what_is_flagged_or_incomplete_is_seen_and_not_kept() -> None:
    found = Side()
    found.see(Sample(at=1.0, batch=1, step_seconds=0.05, flags=("first",)))
    found.see(Sample(at=2.0, batch=1, step_seconds=0.05))

    assert (found.seen, found.clean, list(found.readings())) == (2, 0, [])
    assert (found.first_at, found.last_at) == (None, None)


def test_without_speculation_a_step_commits_one_token() -> None:
    found = Side()
    found.see(
        Sample(at=1.0, batch=2, total_context_tokens=100, context_tokens=50.0, throughput=40.0, step_seconds=0.05)
    )

    assert found.sums.tokens == 2.0


def test_the_sides_of_a_service_know_when_they_were() -> None:
    samples = Service(1).samples(100)
    found = side(samples)

    assert (found.first_at, found.last_at) == (samples[0].at, samples[-1].at)

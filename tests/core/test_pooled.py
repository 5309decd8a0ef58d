"""Neighbouring samples add up to tokens over time, not to a mean of rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.pooled import pooled
from ddwatch.core.snapshot import Flag, Sample


def sample(step: float | None = 0.1, accept: float | None = 3.0, *flags: Flag, batch: int = 1) -> Sample:
    known = step is not None and accept is not None
    rate = batch * accept / step if known and step is not None and accept is not None else 50.0
    return Sample(at=0.0, batch=batch, accept_length=accept, step_seconds=step, throughput=rate, flags=flags)


def test_one_sample_is_itself() -> None:
    one = sample()
    assert pooled([one]) is one


@given(st.lists(st.tuples(st.floats(0.01, 1.9), st.floats(1, 16), st.integers(1, 9)), min_size=2, max_size=30))
def test_the_rate_is_total_tokens_over_total_time(steps: list[tuple[float, float, int]]) -> None:
    found = pooled([sample(step, accept, batch=batch) for step, accept, batch in steps])
    tokens = sum(accept * batch for _, accept, batch in steps)
    assert found.throughput == pytest.approx(tokens / sum(step for step, _, _ in steps))
    assert found.accept_length == pytest.approx(tokens / sum(batch for _, _, batch in steps))
    assert found.step_seconds == pytest.approx(sum(step for step, _, _ in steps) / len(steps))


def test_absent_values_are_left_out_and_stay_absent() -> None:
    found = pooled([sample(None, None), sample(None, None)])
    assert (found.step_seconds, found.accept_length, found.throughput) == (None, None, 50.0)
    assert pooled([sample(0.1), sample(None, 3.0)]).step_seconds == pytest.approx(0.1)
    assert pooled([Sample(at=0.0), Sample(at=1.0)]).throughput is None


def test_flags_are_joined() -> None:
    assert pooled([sample(0.1, 3.0, "first"), sample(0.1, 3.0, "first", "idle")]).flags == ("first", "idle")

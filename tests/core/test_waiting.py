"""Step beside forward time: a slow step with a quick forward pass is the CPU's, and the other way round the GPU's."""

import pytest

from ddwatch.core.waiting import STRETCH_SECONDS, STRETCHES_KEPT, Wait, Waits, waiting

ONSET = 1000.0


def lasting(begin: float, end: float, step: float, forward: float) -> list[Wait]:
    return [Wait(float(at), step, forward) for at in range(int(begin), int(end), 10)]


def test_a_gpu_that_waits_longer_than_before_is_cpu_bound() -> None:
    waits = [*lasting(500, 1001, 0.0200, 0.0197), *lasting(1020, 1100, 0.0249, 0.0200)]
    found = waiting(ONSET, waits)
    assert found is not None
    assert found[0] == "CPU-bound: the GPU waits 4.9 ms of each step (0.3 ms before)"
    assert "py-spy" in found[1]


def test_what_the_wait_cannot_explain_is_the_gpus() -> None:
    waits = [*lasting(500, 1001, 0.030, 0.028), *lasting(1020, 1100, 0.060, 0.058)]
    assert waiting(ONSET, waits) is None, "the context may have grown"
    found = waiting(ONSET, waits, 2.0)
    assert found is not None
    assert found[0] == "the GPU's own forward pass takes longer: it waits only 2.0 ms of each 60.0 ms step"
    assert "clocks" in found[1]
    alone = waiting(ONSET, lasting(1020, 1100, 0.060, 0.058), 2.0)
    assert alone is not None and "own forward pass" in alone[0]


def test_a_context_that_grows_meanwhile_does_not_hide_the_cpu() -> None:
    waits = [*lasting(500, 1001, 0.0200, 0.0197), *lasting(1020, 1100, 0.0549, 0.0500)]
    found = waiting(ONSET, waits, 0.0549 / 0.0503)
    assert found is not None
    assert found[0] == "CPU-bound: the GPU waits 4.9 ms of each step (0.3 ms before)"


def test_a_part_of_the_excess_accuses_neither() -> None:
    waits = [*lasting(500, 1001, 0.0200, 0.0190), *lasting(1020, 1100, 0.0300, 0.0254)]
    assert waiting(ONSET, waits, 1.5) is None


def test_without_a_before_only_a_large_share_is_worth_saying() -> None:
    assert waiting(ONSET, lasting(1020, 1100, 0.020, 0.018)) is None
    found = waiting(ONSET, lasting(1020, 1100, 0.020, 0.0151))
    assert found is not None
    assert found[0] == "CPU-bound: the GPU waits 4.9 ms of each 20.0 ms step"


@pytest.mark.parametrize(
    "waits",
    [
        [],
        lasting(500, 1001, 0.02, 0.01),
        [*lasting(500, 1001, 0.0200, 0.0190), *lasting(1020, 1100, 0.0204, 0.0191)],
        [*lasting(500, 1001, 0.0500, 0.0300), *lasting(1020, 1100, 0.0500, 0.0300)],
    ],
    ids=["nothing", "nothing since", "noise", "as before"],
)
def test_what_has_not_changed_explains_nothing(waits: list[Wait]) -> None:
    assert waiting(ONSET, waits) is None


def test_stretches_are_medians_of_ten_seconds_and_bounded() -> None:
    waits = Waits()
    for at in range(200):
        waits.add(at / 10, 0.020 if at % 3 else 0.5, 0.015)
    assert waits.all() == (Wait(10.0, 0.020, 0.015),)
    assert waits.all()[0].seconds == pytest.approx(0.005)
    waits.close(21.0)
    assert len(waits.all()) == 2
    waits.close(22.0)
    assert len(waits.all()) == 2
    for at in range(2 * STRETCHES_KEPT):
        waits.add(100 + at * STRETCH_SECONDS, 0.02, 0.01)
    assert len(waits.all()) == STRETCHES_KEPT


def test_a_forward_time_above_the_step_time_is_no_negative_wait() -> None:
    assert Wait(0.0, 0.010, 0.011).seconds == 0.0

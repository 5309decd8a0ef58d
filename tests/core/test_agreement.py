"""Two witnesses are compared over the same steps; a difference beyond their error is said, noise is not."""

from ddwatch.core.agreement import COMPARISONS, Agreement, Disagreement, Ratios
from ddwatch.core.snapshot import Flag, Sample


def line(step: float | None = 0.03, accept: float | None = 3.0, *flags: Flag) -> Sample:
    return Sample(at=0.0, step_seconds=step, accept_length=accept, flags=flags)


def stretches(log: Sample, moments: Sample, times: int = COMPARISONS, lines: int = 5) -> list[Disagreement | None]:
    agreement = Agreement()
    found = []
    for _ in range(times):
        for _ in range(lines):
            agreement.line(log)
        found.append(agreement.moments(moments))
    return found


def test_witnesses_that_agree_say_nothing() -> None:
    assert stretches(line(0.031, 3.05), line(0.03, 3.0)) == [None] * COMPARISONS


def test_a_lasting_difference_is_said_with_its_size() -> None:
    *before, last = stretches(line(0.045), line(0.03))
    assert before == [None] * (COMPARISONS - 1)
    assert last is not None
    assert (last.quantity, last.log, last.moments) == ("step time", 0.045, 0.03)
    assert abs(last.ratio - 1.5) < 1e-9
    accept = stretches(line(accept=4.0), line(accept=3.0))[-1]
    assert accept is not None
    assert accept.quantity == "accept length"


def test_contaminated_lines_and_stretches_are_not_compared() -> None:
    assert stretches(line(0.09, 3.0, "prefill"), line()) == [None] * COMPARISONS
    assert stretches(line(0.09), line(0.03, 3.0, "gap")) == [None] * COMPARISONS
    assert stretches(line(0.09), line(), lines=2) == [None] * COMPARISONS


def test_steps_that_the_moments_leave_out_are_left_out_of_the_log_too() -> None:
    """SGLang does not count a step of two seconds, as a long context on a busy machine takes."""
    agreement = Agreement()
    told = []
    for _ in range(COMPARISONS):
        for step in (0.03, 2.4, 0.03, 2.1, 0.03):
            agreement.line(line(step))
        told.append(agreement.moments(line(0.03)))
    assert told == [None] * COMPARISONS


def test_absent_values_are_not_compared() -> None:
    assert stretches(line(None, None), line()) == [None] * COMPARISONS
    assert stretches(line(0.09), line(None, 3.0)) == [None] * COMPARISONS


def test_short_readings_are_compared_over_longer_stretches() -> None:
    """The moments lag fifteen steps behind the lines, so a single short reading differs by chance."""
    agreement = Agreement()
    told = []
    for number in range(200):
        for _ in range(5):
            agreement.line(Sample(at=0.0, batch=2, step_seconds=0.03, accept_length=3.0 + (-1) ** number))
        moments = Sample(at=0.0, batch=2, step_seconds=0.03, accept_length=3.0 - (-1) ** number, steps=25)
        told.append(agreement.moments(moments))
    assert told == [None] * 200


def test_a_larger_batch_weighs_more_in_the_accept_length() -> None:
    agreement = Agreement()
    told = []
    for _ in range(COMPARISONS):
        for batch, accept in ((1, 2.0), (1, 2.0), (4, 4.0)):
            agreement.line(Sample(at=0.0, batch=batch, step_seconds=0.03, accept_length=accept))
        told.append(
            agreement.moments(Sample(at=0.0, mean_batch=2.0, step_seconds=0.03, accept_length=10 / 3, steps=150))
        )
    assert told == [None] * COMPARISONS


def test_the_median_of_several_stretches_decides_between_any_two_witnesses() -> None:
    ratios = Ratios()
    assert [ratios.add(1.5, 0.1) for _ in range(COMPARISONS - 1)] == [None] * (COMPARISONS - 1)
    assert ratios.add(1.4, 0.1) == 1.5
    assert ratios.add(1.5, 0.5) is None
    ratios.clear()
    assert ratios.add(1.5, 0.1) is None

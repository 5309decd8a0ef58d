"""An offset per step, a factor, and a steeper context are told apart, and not named while they cannot be."""

import pytest

from ddwatch.core.detection.blocks import Line
from ddwatch.core.detection.noise import Noise
from ddwatch.core.detection.shape import Excess, Shape
from tests.core.detection.traffic import MODEL, Lines, Slow, factor


def watched(slow: Slow, contexts: tuple[float, float], lines: int = 400, seed: int = 3) -> Shape:
    """The shape after so many lines of a slowdown."""
    played = Lines(contexts=contexts, seed=seed)
    played.play(100)
    played.change(slow)
    played.play(lines)
    shape = played.detector.shape()
    assert shape is not None
    return shape


def test_a_latched_offset_at_4k_and_at_32k_is_one_number() -> None:
    shape = watched(lambda healthy, total, seconds: healthy + 0.0308, (4000.0, 32000.0), lines=800)

    assert shape.form == "offset"
    assert shape.offset_seconds == pytest.approx(0.0308, abs=0.0015)
    assert 0.0 < shape.offset_error < 0.001
    assert (shape.what, shape.where) == ("+31 ms on every step", "at all contexts")


def test_a_factor_is_named_as_one() -> None:
    shape = watched(factor(1.25), (2000.0, 18000.0))

    assert shape.form == "factor"
    assert shape.factor == pytest.approx(1.25, abs=0.02)
    assert (shape.what, shape.where) == ("x1.25 on every step", "at every context")


def test_a_steeper_context_is_named_as_one() -> None:
    shape = watched(lambda healthy, total, seconds: healthy + 1.4e-6 * total, (2000.0, 18000.0))

    assert shape.form == "context"
    assert shape.what.endswith("steeper with context")


def test_a_steeper_batch_is_named_as_one() -> None:
    noise = Noise(0.02, 0.3)
    excess = Excess(MODEL)
    for number in range(400):
        batch = float(2 + number % 15)
        expected = MODEL.seconds(batch, 8000.0)
        excess.add(Line(float(number), float(number), 0.2, expected + MODEL.batch.at(batch), expected, batch, 8000.0))
    shape = excess.shape(noise, 0.01)

    assert shape is not None and shape.form == "batch"


def test_at_one_context_nothing_is_claimed_but_both_numbers_are_told() -> None:
    shape = watched(lambda healthy, total, seconds: healthy + 0.0308, (8000.0, 8300.0))

    assert shape.form == "undetermined"
    assert shape.what == "+31 ms (x1.87) per step"
    assert shape.where.startswith("at 8.")


def test_a_hiccup_does_not_move_the_numbers() -> None:
    played = Lines(contexts=(4000.0, 32000.0), seed=3)
    played.play(100)
    played.change(lambda healthy, total, seconds: healthy + 0.0308)
    for _ in range(60):
        played.play(10)
        played.line(extra=2.0)
    shape = played.detector.shape()

    assert shape is not None and shape.form == "offset"
    assert shape.offset_seconds == pytest.approx(0.0308, abs=0.002)


@pytest.mark.parametrize("seed", range(6))
def test_no_wrong_name_for_a_slowdown_of_each_kind(seed: int) -> None:
    slowdowns: dict[str, Slow] = {
        "offset": lambda healthy, total, seconds: healthy + 0.012,
        "factor": factor(1.2),
        "context": lambda healthy, total, seconds: healthy + 0.8e-6 * total,
    }
    for form, slow in slowdowns.items():
        assert watched(slow, (2000.0, 18000.0), seed=seed).form in (form, "undetermined")


@pytest.mark.parametrize("form", ["offset", "factor", "context"])
def test_what_still_grows_is_hardly_ever_taken_for_what_grew_with_it(form: str) -> None:
    """A request's context grows while a ramp does: at first one looks like the other."""
    ramps: dict[str, Slow] = {
        "offset": lambda healthy, total, seconds: healthy + 0.02 * min(1.0, seconds / 300.0),
        "factor": lambda healthy, total, seconds: healthy * (1.0 + 0.25 * min(1.0, seconds / 300.0)),
        "context": lambda healthy, total, seconds: healthy + 0.8e-6 * total * min(1.0, seconds / 300.0),
    }
    named: list[str] = []
    for seed in range(4):
        played = Lines(contexts=(2000.0, 18000.0), seed=seed)
        played.play(200)
        played.change(ramps[form])
        end = played.at + 600.0
        while played.at < end:
            played.play(10)
            shape = played.detector.shape() if played.phases[-1] == "firing" else None
            named += [] if shape is None else [shape.form]
        assert named[-1] == form

    wrong = [name for name in named if name not in (form, "undetermined")]
    assert len(wrong) <= 0.05 * len(named)


def test_bins_stay_bounded_over_time_and_lose_no_line() -> None:
    excess = Excess(MODEL)
    for number in range(4000):
        total = 1000.0 * (1 + number % 12)
        expected = MODEL.seconds(1.0, total)
        excess.add(Line(float(number), float(number), 0.1, expected + 0.010, expected, 1.0, total))
    shape = excess.shape(Noise(0.02, 0.3), 0.01)

    assert shape is not None
    assert (shape.form, shape.lines) == ("offset", 4000)


def test_the_sentence_of_the_incident() -> None:
    played = Lines(contexts=(4000.0, 32000.0))
    played.play(100)
    played.change(lambda healthy, total, seconds: healthy + 0.0308)
    played.play(800)
    told = played.detector.state(played.at)

    assert told is not None
    assert told.sentence("14:02") == "+31 ms on every step since 14:02, at all contexts"
    assert told.evidence["form"] == "offset"

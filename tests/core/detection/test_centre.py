"""A model that is too slow somewhere is met half way, never further than its own error, and never upwards."""

from ddwatch.core.detection.centre import NEEDED_LINES, Centres


def taught(residual: float, lines: int = NEEDED_LINES) -> Centres:
    """Centres after so many quiet lines at one load."""
    centres = Centres()
    for _ in range(lines):
        centres.see(1.0, 4000.0, residual)
    return centres


def test_a_few_lines_say_nothing() -> None:
    assert taught(-0.02, NEEDED_LINES - 1).at(1.0, 4000.0, 0.03) == 0.0


def test_a_load_where_the_model_is_too_slow_is_judged_from_there() -> None:
    assert abs(taught(-0.02).at(1.0, 4000.0, 0.03) + 0.02) < 1e-9


def test_never_further_than_the_fit_error() -> None:
    assert taught(-0.2).at(1.0, 4000.0, 0.03) == -0.03


def test_slow_is_never_taken_for_normal() -> None:
    assert taught(0.05, 10000).at(1.0, 4000.0, 0.03) == 0.0


def test_a_new_load_takes_the_mean_over_all_until_it_is_known() -> None:
    centres = taught(-0.02)
    assert abs(centres.at(8.0, 30000.0, 0.03) + 0.02) < 1e-9

    for _ in range(NEEDED_LINES):
        centres.see(8.0, 30000.0, 0.0)
    assert centres.at(8.0, 30000.0, 0.03) == 0.0


def test_one_odd_line_moves_little() -> None:
    centres = taught(0.0, 200)
    centres.see(1.0, 4000.0, -3.0)

    assert centres.at(1.0, 4000.0, 0.03) > -0.001


def test_it_is_bounded() -> None:
    centres = Centres()
    for number in range(5000):
        centres.see(1.0, 1.5**number if number < 100 else float(number), -0.01)

    assert centres.at(1.0, 10.0, 0.03) <= 0.0

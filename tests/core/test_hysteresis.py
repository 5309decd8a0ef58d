"""A condition must hold for a while before it counts, and must be gone for a while before it does not."""

from ddwatch.core.hysteresis import Hysteresis


def states(seconds: float, *conditions: bool) -> list[bool]:
    follow = Hysteresis(seconds)
    return [follow.see(float(at), condition) for at, condition in enumerate(conditions)]


def test_it_changes_only_after_the_opposite_has_held() -> None:
    assert states(2, True, True, True, True) == [False, False, True, True]
    assert states(2, True, True, False, True, True, True) == [False, False, False, False, False, True]
    assert states(1, True, True, False, True, False, False) == [False, True, True, True, True, False]


def test_a_reset_is_at_once() -> None:
    follow = Hysteresis(1)
    follow.see(0, True)
    assert follow.see(1, True)
    follow.reset()
    assert not follow.see(2, True)

"""Accept length is compared over some forty steps, however many steps a decode line stands for."""

from ddwatch.core.expectation.retention import Observation
from ddwatch.core.expectation.windows import WINDOW_STEPS, Windows

KEY = (None, None)


def line(accept: float, batch: int = 1, text_class: str | None = None) -> Observation:
    return Observation(
        batch=batch,
        total_context=1000.0 * batch,
        step_seconds=0.05,
        accept_length=accept,
        own_batch=batch,
        context_tokens=1000.0,
        text_class=text_class,
    )


def test_lines_of_single_steps_are_averaged_over_forty_of_them() -> None:
    windows = Windows()
    done = [windows.see(KEY, line(float(1 + index % 4))) for index in range(2 * WINDOW_STEPS)]
    assert [index for index, completed in enumerate(done) if completed] == [39, 79]
    assert [item.accept_length for item in windows.kept] == [2.5, 2.5]


def test_lines_that_are_means_already_are_taken_as_they_are() -> None:
    windows = Windows()
    assert all(windows.see(KEY, line(2.9 + 0.013 * index)) for index in range(30))
    assert len(windows.kept) == 30


def test_a_known_interval_decides() -> None:
    assert Windows(40).lines() == 1
    assert Windows(10).lines() == 4
    assert Windows(1).lines() == 40
    assert Windows(500).lines() == 1


def test_a_window_holds_one_batch_one_class_and_nothing_across_an_interruption() -> None:
    windows = Windows(20)
    windows.see(KEY, line(3.0))
    windows.interrupt(KEY)
    assert not windows.see(KEY, line(3.0))
    assert not windows.see(KEY, line(3.0, batch=2))
    assert not windows.see(KEY, line(3.0, batch=2, text_class="code"))
    assert windows.see(KEY, line(5.0, batch=2, text_class="code"))
    (kept,) = windows.kept
    assert (kept.accept_length, kept.text_class) == (4.0, "code")
    windows.see(KEY, line(3.0))
    windows.forget()
    assert not windows.see(KEY, line(3.0))


def test_ranks_have_windows_of_their_own_and_their_number_is_bounded() -> None:
    windows = Windows(20)
    for rank in range(1000):
        assert not windows.see((None, rank), line(3.0))
    assert not windows.see((None, 0), line(3.0)), "the first rank was forgotten"
    assert windows.see((None, 999), line(3.0))


def test_lines_without_accept_length_make_no_window() -> None:
    windows = Windows(40)
    assert not windows.see(KEY, Observation(batch=1, total_context=1.0, step_seconds=0.05))

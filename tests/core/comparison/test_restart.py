"""After every restart seen live, one event says what it did to each step, or none where that cannot be known."""

import pytest

from ddwatch.core.comparison.restart import EVERY, LONGEST_SECONDS, RestartComparison
from ddwatch.core.history import EventLog, Ring
from ddwatch.core.snapshot import Event, Sample
from tests.core.comparison.service import Service, Slow, unchanged

CONTEXTS = (1900.0, 2300.0)


class Watch:
    """A live watch of one service that is restarted."""

    def __init__(self) -> None:
        self.ring = Ring()
        self.comparison = RestartComparison(EventLog(self.ring))
        self.at = 0.0

    def run(
        self, lines: int, seed: int = 1, *, slow: Slow = unchanged, contexts: tuple[float, float] = CONTEXTS
    ) -> None:
        for sample in Service(seed, slow=slow).samples(lines, contexts=contexts):
            self.see(sample)

    def see(self, sample: Sample) -> None:
        self.comparison.see(sample)
        self.at = sample.at

    def restart(self) -> None:
        self.comparison.restart(self.at, None)

    @property
    def events(self) -> tuple[Event, ...]:
        return self.ring.since(0).events


def test_a_harmless_restart_is_acquitted_once() -> None:
    watch = Watch()
    watch.run(600)
    watch.restart()
    watch.run(600, 2)

    (event,) = watch.events
    assert (event.kind, event.severity) == ("comparison", "ok")
    assert event.text.startswith("since the restart: step time ")
    assert event.text.endswith(" at equal batch and context")
    watch.run(600, 3)
    assert len(watch.events) == 1


def test_a_restart_that_slows_each_step_is_a_notice() -> None:
    watch = Watch()
    watch.run(600)
    watch.restart()
    watch.run(600, 2, slow=lambda seconds: seconds * 1.15)

    (event,) = watch.events
    assert event.severity == "notice"
    assert "step time +1" in event.text


def test_each_restart_is_told_and_compared_with_what_was_before_it() -> None:
    watch = Watch()
    watch.run(600)
    watch.restart()
    watch.run(600, 2, slow=lambda seconds: seconds * 1.3)
    watch.restart()
    watch.run(600, 3, slow=lambda seconds: seconds * 1.3)

    assert [event.severity for event in watch.events] == ["notice", "ok"]


def test_a_crash_loop_is_compared_with_how_it_was_before_it() -> None:
    watch = Watch()
    watch.run(600)
    for seed in (2, 3, 4):
        watch.restart()
        watch.run(5, seed)
    watch.restart()
    watch.run(600, 5, slow=lambda seconds: seconds * 1.3)

    (event,) = watch.events
    assert event.severity == "notice"


@pytest.mark.parametrize("before", [0, 10])
def test_without_a_before_nothing_is_told(before: int) -> None:
    watch = Watch()
    watch.run(before)
    watch.restart()
    watch.run(900, 2)

    assert watch.events == ()


def test_without_a_common_load_nothing_is_told() -> None:
    watch = Watch()
    watch.run(600)
    watch.restart()
    watch.run(900, 2, contexts=(4000.0, 6000.0), slow=lambda seconds: seconds * 2.0)

    assert watch.events == ()


def test_a_service_that_was_never_restarted_hears_nothing() -> None:
    watch = Watch()
    watch.run(2 * EVERY)
    watch.run(600, 2, slow=lambda seconds: seconds * 1.5)

    assert watch.events == ()


def test_what_comes_too_late_is_no_news() -> None:
    watch = Watch()
    watch.run(600)
    watch.at -= LONGEST_SECONDS + 60.0
    watch.restart()
    watch.run(600, 2)

    assert watch.events == ()


def test_contaminated_samples_do_not_count() -> None:
    watch = Watch()
    watch.run(600)
    watch.restart()
    for sample in Service(2, slow=lambda seconds: seconds * 3.0).samples(600, contexts=CONTEXTS):
        watch.see(
            Sample(
                at=sample.at,
                batch=1,
                total_context_tokens=sample.total_context_tokens,
                context_tokens=sample.context_tokens,
                accept_length=sample.accept_length,
                throughput=sample.throughput,
                step_seconds=sample.step_seconds,
                flags=("warming",),
            )
        )

    assert watch.events == ()

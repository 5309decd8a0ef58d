"""Passes become samples of their own span, and figures that stand beside the step."""

import pytest

from ddwatch.core.engine import RANKS_AT_MOST, ForwardPass
from ddwatch.core.forward_book import LOSS_SECONDS, REST_SECONDS, ForwardBook
from ddwatch.core.snapshot import Sample

KEY = (None, None)


class Engine:
    """Passes in a row, as one rank publishes them."""

    def __init__(self, book: ForwardBook, dp: int | None = None) -> None:
        self.book = book
        self.key = (None, dp)
        self.at = 1000.0
        self.counter = 0

    def say(self, seconds: float, after: float, **more: int) -> Sample | None:
        self.at += after
        one = ForwardPass(at=self.at, dp_rank=self.key[1] or 0, counter=self.counter, seconds=seconds, **more)  # type: ignore[arg-type]
        self.counter += 1
        return self.book.see(one, self.key, warming=False)

    def decode(self, passes: int, seconds: float = 0.015, every: float = 0.020, requests: int = 2) -> Sample:
        for _ in range(passes):
            sample = self.say(seconds, every, decode_requests=requests, decode_context_tokens=3000, queued=1)
        assert sample is not None
        return sample

    def prefill(self, seconds: float = 0.2) -> Sample:
        sample = self.say(seconds, seconds, prefill_requests=1, prefill_tokens=900)
        assert sample is not None
        return sample


def test_a_pass_is_a_sample_of_its_own_span_and_one_step() -> None:
    book = ForwardBook()
    sample = Engine(book).decode(1)
    assert (sample.span, sample.provenance, sample.steps) == ("forward", "fpm", 1)
    assert (sample.batch, sample.total_context_tokens, sample.context_tokens) == (2, 3000, 1500.0)
    assert (sample.step_seconds, sample.accept_length, sample.throughput) == (0.015, None, None)
    assert sample.clean


def test_a_pass_with_a_prefill_is_flagged() -> None:
    book = ForwardBook()
    assert Engine(book).prefill().flags == ("prefill",)
    warm = ForwardPass(at=0.0, dp_rank=0, counter=9, seconds=0.01, decode_requests=1, decode_context_tokens=5)
    sample = book.see(warm, KEY, warming=True)
    assert sample is not None
    assert sample.flags == ("warming",)


def test_the_step_stands_beside_the_forward_pass() -> None:
    book = ForwardBook()
    engine = Engine(book)
    engine.decode(200)
    book.step(Sample(at=engine.at, batch=2, step_seconds=0.0199))
    view = book.view(engine.at)
    assert view is not None
    assert view.forward_seconds == pytest.approx(0.015)
    assert view.step_seconds == 0.0199
    assert view.wait_seconds == pytest.approx(0.0049)
    assert view.passes_per_second == pytest.approx(50, rel=0.03)
    assert (view.batch, view.total_context_tokens, view.queued) == (2, 3000, 1)
    assert (view.prefill_ratio, view.lost, view.ranks, view.resting) == (0.0, 0, 1, False)


def test_only_clean_steps_of_span_step_are_set_beside_passes() -> None:
    book = ForwardBook()
    engine = Engine(book)
    engine.decode(100)
    book.step(Sample(at=engine.at, step_seconds=0.5, flags=("prefill",)))
    book.step(Sample(at=engine.at, step_seconds=0.5, span="verify"))
    book.step(Sample(at=engine.at, step_seconds=None))
    book.step(Sample(at=engine.at, step_seconds=0.5, dp_rank=3))
    view = book.view(engine.at)
    assert view is not None
    assert view.step_seconds is None
    assert view.wait_seconds is None
    assert book.waits() == ()


def test_prefills_do_not_enter_the_forward_time_and_are_told_as_a_share() -> None:
    book = ForwardBook()
    engine = Engine(book)
    engine.decode(100, seconds=0.010)
    for _ in range(5):
        engine.prefill(0.2)
    engine.decode(1, seconds=0.010)
    view = book.view(engine.at)
    assert view is not None
    assert view.forward_seconds == pytest.approx(0.010)
    assert view.prefill_ratio == pytest.approx(1.0 / 2.01)


def test_missing_numbers_are_losses_and_are_told_now_and_then() -> None:
    book = ForwardBook()
    engine = Engine(book)
    engine.decode(3)
    assert book.losses(KEY, engine.at) == 0
    engine.counter += 4
    engine.decode(1)
    assert book.losses(KEY, engine.at) == 4
    engine.counter += 2
    engine.decode(1)
    assert book.losses(KEY, engine.at) == 0
    assert book.losses(KEY, engine.at + LOSS_SECONDS) == 2
    assert book.lost == 6


def test_an_engine_that_begins_anew_has_lost_nothing() -> None:
    book = ForwardBook()
    engine = Engine(book)
    engine.decode(50)
    engine.counter = 0
    engine.decode(1)
    assert (book.lost, book.losses(KEY, engine.at)) == (0, 0)


def test_heartbeats_are_rest_only_after_a_while() -> None:
    book = ForwardBook()
    engine = Engine(book)
    engine.decode(5)
    assert engine.say(0.0, 1.0) is None
    since = engine.at
    assert book.resting_since(KEY, engine.at) is None
    for _ in range(int(REST_SECONDS)):
        engine.say(0.0, 1.0)
    assert book.resting_since(KEY, engine.at) == since
    view = book.view(engine.at)
    assert view is not None
    assert view.resting
    assert (view.forward_seconds, view.batch) == (None, None)
    engine.decode(1)
    assert book.resting_since(KEY, engine.at) is None


def test_ranks_are_summed_and_a_silent_one_is_left_out() -> None:
    book = ForwardBook()
    first, second = Engine(book, 0), Engine(book, 1)
    first.decode(100, seconds=0.010)
    second.decode(100, seconds=0.020)
    view = book.view(first.at)
    assert view is not None
    assert (view.ranks, view.batch, view.total_context_tokens) == (2, 4, 6000)
    assert view.forward_seconds == pytest.approx(0.015)
    first.decode(1, every=11.0)
    view = book.view(first.at)
    assert view is not None
    assert view.ranks == 1
    assert book.view(first.at + 60) is None


def test_nothing_heard_shows_nothing_and_ranks_are_bounded() -> None:
    book = ForwardBook()
    assert book.view(0.0) is None
    for dp in range(RANKS_AT_MOST + 5):
        Engine(book, dp).say(0.01, 0.1, decode_requests=1)
    assert book.ranks == RANKS_AT_MOST
    book.forget(2000.0)
    assert (book.ranks, book.view(1000.0)) == (0, None)

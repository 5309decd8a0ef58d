"""A finished request is judged by the seconds in which it ran, told once, and says when it cannot be judged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ddwatch.core.history import Ring
from ddwatch.core.records import RequestDone
from ddwatch.core.request_view import FinishedRequest
from ddwatch.core.requests import HISTOGRAM_DEPTH, RequestBook, accept_length, speed
from ddwatch.core.snapshot import Point, PointState

END = 1000.0


def ring(
    *, step: float | None = 0.1, contaminated: frozenset[int] = frozenset(), state: dict[int, PointState] | None = None
) -> Ring:
    """Twenty seconds of one request at an expected step time, with a band of 20 %."""
    made = Ring()
    for second in range(20):
        at = END - 20 + second
        made.add_point(
            Point(
                seq=made.next_seq(),
                at=at,
                state=(state or {}).get(second, "data"),
                contaminated=second in contaminated,
                throughput=29.0,
                accept_length=2.9,
                step_seconds=step,
                batch=1,
                expected_throughput=29.0 if step is not None else None,
                expected_low=29.0 * 0.8 if step is not None else None,
                expected_high=29.0 * 1.2 if step is not None else None,
                expected_step_seconds=step,
            )
        )
    return made


def done(
    tokens: int = 300, *, rate: float | None = 29.0, accept: float | None = 2.9, latency: float = 12.0
) -> RequestDone:
    return RequestDone(
        at=END,
        prompt_tokens=500,
        completion_tokens=tokens,
        latency_seconds=latency,
        first_token_seconds=1.5,
        throughput_tokens_per_second=rate,
        accept_length=accept,
    )


def judged(record: RequestDone, past: Ring | None = None) -> FinishedRequest:
    book = RequestBook(ring() if past is None else past)
    book.prefills_told()
    return seen(book, record)


def test_expected_is_its_own_accept_length_over_the_step_times_of_its_seconds() -> None:
    request = judged(done())
    assert request.expected == pytest.approx(29.0)
    assert [request.expected_low, request.expected_high, request.ratio] == pytest.approx([23.2, 34.8, 1.0])
    assert (request.verdict, request.reason) == ("as-expected", None)


def test_hard_text_is_no_slowness_and_a_slow_step_is() -> None:
    assert judged(done(rate=14.0, accept=1.4)).verdict == "as-expected"
    slow = judged(done(rate=20.0))
    assert slow.verdict == "slow"
    assert slow.ratio == pytest.approx(20 / 29)
    assert judged(done(rate=40.0)).verdict == "fast"


@pytest.mark.parametrize(
    ("record", "past", "reason"),
    [
        (done(8), None, "too short"),
        (RequestDone(at=END, prompt_tokens=5, completion_tokens=50), None, "its time is not told"),
        (RequestDone(at=END, completion_tokens=50, latency_seconds=9.0), None, "with queue and prefill"),
        (done(), Ring(), "too few clean seconds"),
        (done(latency=3.2), None, "too few clean seconds"),
        (done(), ring(step=None), "no model for this load"),
        (
            done(),
            ring(contaminated=frozenset({12, 13, 14, 15})),
            "too few clean seconds",
        ),
        (done(), ring(state={14: "gap"}), "not seen throughout"),
        (done(accept=None), None, "accept length not told"),
    ],
)
def test_what_cannot_be_judged_says_why(record: RequestDone, past: Ring | None, reason: str) -> None:
    request = judged(record, past)
    assert (request.verdict, request.reason, request.expected) == ("unjudged", reason, None)


def test_its_own_beginning_and_end_do_not_make_it_unclean() -> None:
    assert judged(done(), ring(contaminated=frozenset({9, 19}))).verdict == "as-expected"


def test_speed_is_without_queue_and_prefill_where_the_first_token_is_known() -> None:
    record = RequestDone(at=END, completion_tokens=101, latency_seconds=6.0, first_token_seconds=1.0)
    assert speed(record) == (20.0, False)
    assert speed(RequestDone(at=END, completion_tokens=60, latency_seconds=6.0)) == (10.0, True)
    assert speed(RequestDone(at=END, completion_tokens=0, latency_seconds=6.0)) == (None, False)
    assert speed(RequestDone(at=END)) == (None, False)


def test_accept_length_comes_from_the_exact_distribution_first() -> None:
    assert accept_length(RequestDone(at=END, accept_length=9.0, accepted_drafts=(16, 3, 2, 1))) == pytest.approx(
        32 / 22
    )
    assert accept_length(RequestDone(at=END, accept_length=2.5, accepted_drafts=(0, 0))) == 2.5
    assert accept_length(RequestDone(at=END, completion_tokens=30, verify_steps=10)) == 3.0
    assert accept_length(RequestDone(at=END)) is None


def test_a_request_that_two_witnesses_tell_of_is_one() -> None:
    past = ring()
    book = RequestBook(past)
    assert book.see(done()) is not None
    assert book.see(done()) is None
    assert book.see(done(latency=12.5)) is not None
    assert [request.latency_seconds for request in past.since(0).requests] == [12.0, 12.5]
    untimed = RequestDone(at=END, prompt_tokens=5, completion_tokens=50)
    assert book.see(untimed) is not None and book.see(untimed) is not None


def test_the_histogram_counts_every_step_once_and_is_absent_where_nobody_tells() -> None:
    book = RequestBook(ring())
    book.see(done())
    assert book.histogram() is None
    for number, drafts in enumerate(((10, 5, 4, 2), (1,), (0, 0, 0, 0, 0, 7))):
        book.see(
            RequestDone(at=END + number, completion_tokens=9, latency_seconds=1.0 + number, accepted_drafts=drafts)
        )
    histogram = book.histogram()
    assert histogram is not None
    assert (histogram.steps, histogram.requests, histogram.since) == ((11, 5, 4, 2, 0, 7), 3, END)
    book.see(RequestDone(at=END + 9, completion_tokens=9, latency_seconds=9.0, accepted_drafts=(1,) * 500))
    deep = book.histogram()
    assert deep is not None
    assert (len(deep.steps), sum(deep.steps)) == (HISTOGRAM_DEPTH, 29 + 500)


STEPS_SLOW = 0.15


def crowd(*, step: float = 0.1, prefills: tuple[float, ...] = (), told: bool = True) -> RequestBook:
    """Twenty seconds at an expected step of 0.1 s, measured at `step`, with others' prefills at these times."""
    past = Ring()
    for second in range(20):
        past.add_point(
            Point(
                seq=past.next_seq(),
                at=END - 20 + second,
                accept_length=2.9,
                step_seconds=step,
                batch=2,
                expected_throughput=58.0,
                expected_low=58.0 * 0.8,
                expected_high=58.0 * 1.2,
                expected_step_seconds=0.1,
            )
        )
    book = RequestBook(past)
    if told:
        book.prefills_told()
    for at in prefills:
        book.prefilled(at)
    return book


def seen(book: RequestBook, record: RequestDone) -> FinishedRequest:
    request = book.see(record)
    assert request is not None
    return request


def test_time_that_others_prefills_took_is_not_called_slow() -> None:
    request = seen(crowd(prefills=(END - 5,)), done(rate=20.0))
    assert (request.verdict, request.reason) == ("unjudged", "others' prefills inside")
    assert request.ratio == pytest.approx(20 / 29)


def test_steps_that_are_slow_themselves_are_called_so_whatever_was_prefilled() -> None:
    assert seen(crowd(step=STEPS_SLOW, prefills=(END - 5,)), done(rate=18.0)).verdict == "slow"


def test_prefills_that_cost_nothing_to_speak_of_spoil_no_judgement() -> None:
    assert seen(crowd(prefills=(END - 5,)), done(rate=27.0)).verdict == "as-expected"


def test_the_requests_own_prefill_and_those_after_it_are_none_of_others() -> None:
    assert seen(crowd(prefills=(END - 11, END + 1)), done(rate=20.0)).verdict == "slow"


def test_where_nobody_tells_of_prefills_only_slow_steps_make_it_slow() -> None:
    request = seen(crowd(told=False), done(rate=20.0))
    assert (request.verdict, request.reason) == ("unjudged", "nobody tells of prefills")
    assert seen(crowd(told=False, step=STEPS_SLOW), done(rate=18.0)).verdict == "slow"


def test_a_second_that_is_not_clean_may_have_taken_the_time() -> None:
    request = judged(done(rate=22.0), ring(contaminated=frozenset({14})))
    assert (request.verdict, request.reason) == ("unjudged", "unclean seconds inside")
    assert judged(done(rate=27.0), ring(contaminated=frozenset({14}))).verdict == "as-expected"


def test_seconds_of_another_batch_at_its_ends_are_not_its_own() -> None:
    past = Ring()
    for second in range(20):
        batch, step = (2, 0.1) if 9 <= second < 19 else (1, 0.05)
        past.add_point(
            Point(
                seq=past.next_seq(),
                at=END - 20 + second,
                accept_length=2.9,
                step_seconds=step,
                batch=batch,
                expected_throughput=batch * 2.9 / step,
                expected_low=0.95 * batch * 2.9 / step,
                expected_high=1.05 * batch * 2.9 / step,
                expected_step_seconds=step,
            )
        )
    request = judged(done(rate=29.0), past)
    assert request.expected == pytest.approx(29.0)
    assert request.verdict == "as-expected"
    assert judged(done(rate=29.0, latency=3.9), past).reason == "too few clean seconds"


def test_a_pause_before_the_request_is_no_blind_spot_in_it() -> None:
    assert judged(done(), ring(state={9: "idle", 10: "idle"})).verdict == "as-expected"
    assert judged(done(), ring(state={9: "gap"})).verdict == "as-expected"
    assert judged(done(), ring(state={10: "gap"})).reason == "not seen throughout"
    assert judged(done(), ring(state={12: "idle"})).reason == "not seen throughout"


def test_a_retracted_request_waited_for_its_turn_again() -> None:
    request = judged(replace(done(rate=12.0), retractions=1))
    assert (request.verdict, request.reason) == ("unjudged", "retracted on its way")
    assert judged(replace(done(rate=12.0), retractions=0)).verdict == "slow"


@pytest.mark.parametrize("rate", [12.0, 60.0])
def test_a_model_that_may_not_accuse_is_not_made_to(rate: float) -> None:
    book = crowd()
    book.doubt(END - 4, "the model only guesses here")
    request = seen(book, done(rate=rate))
    assert (request.verdict, request.reason) == ("unjudged", "the model only guesses here")
    assert seen(book, done(rate=29.0, latency=12.5)).verdict == "as-expected"


def test_a_doubt_about_another_time_is_none() -> None:
    book = crowd()
    book.doubt(END - 15, "the model only guesses here")
    assert seen(book, done(rate=12.0)).verdict == "slow"


@given(
    steps=st.lists(st.floats(0.01, 1.0), min_size=6, max_size=20),
    accept=st.floats(1.0, 16.0),
)
def test_a_request_that_took_the_models_time_for_each_step_has_ratio_one(steps: list[float], accept: float) -> None:
    past = Ring()
    for second, step in enumerate(steps):
        at = END - len(steps) + second
        past.add_point(
            Point(
                seq=past.next_seq(),
                at=at,
                accept_length=accept,
                step_seconds=step,
                batch=1,
                expected_throughput=accept / step,
                expected_low=0.9 * accept / step,
                expected_high=1.1 * accept / step,
                expected_step_seconds=step,
            )
        )
    # A second of steps of this length commits this many tokens.
    tokens = sum(accept / step for step in steps)
    record = RequestDone(
        at=END - 0.001,
        completion_tokens=round(max(tokens, 16)),
        latency_seconds=float(len(steps)),
        first_token_seconds=0.0,
        throughput_tokens_per_second=tokens / len(steps),
        accept_length=accept,
    )
    request = judged(record, past)
    assert request.ratio == pytest.approx(1.0, rel=1e-6)
    assert request.verdict == "as-expected"

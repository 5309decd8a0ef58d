"""The right model is in force, it says why it cannot judge, and it never accuses outside its evidence."""

import pytest
from msgspec.structs import replace

from ddwatch.core.engine import ForwardPass
from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.learning import SETTLING, Learner
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.profile_text import read_profile
from ddwatch.core.expecting import Expecting, factor_view, reference_view
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import Record, RequestDone, ServerReady
from ddwatch.core.snapshot import Now, Sample, ServerView, Snapshot
from ddwatch.profiles.shelf import FOUNDING, built_in_text
from tests.core.lines import decode, last_of_request, prefill, start


def founding() -> Profile:
    profile = read_profile(built_in_text(FOUNDING))
    assert isinstance(profile, Profile)
    return profile


KIMI = ServerView(
    model="kimi",
    arguments={"model_path": "moonshotai/Kimi-K2.6", "speculative_algorithm": "DDTREE", "tp_size": 8},
)
OTHER = ServerView(model="llama", arguments={"model_path": "meta/Llama-4", "speculative_algorithm": "EAGLE"})


def sample(total: int = 3000, step: float = 0.064, batch: int = 1, dp: int | None = None, at: float = 0.0) -> Sample:
    return Sample(
        at=at,
        dp_rank=dp,
        batch=batch,
        total_context_tokens=total,
        context_tokens=total / batch,
        accept_length=2.9,
        throughput=batch * 2.9 / step,
        step_seconds=step,
    )


def test_without_any_model_it_says_what_is_needed() -> None:
    judged = Expecting().judge([sample()])
    assert judged.expected is None
    assert judged.ratio is None
    assert f"need {SETTLING}" in judged.reason
    assert Expecting().judge([]).reason == "nothing runs"


def test_a_built_in_profile_speaks_only_for_its_own_service() -> None:
    expecting = Expecting(built_in=[founding()])
    assert expecting.judge([sample()]).expected is None
    assert expecting.identify(KIMI)
    assert not expecting.identify(KIMI)
    judged = expecting.judge([sample()])
    assert judged.expected is not None
    assert judged.ratio == pytest.approx(judged.expected.step_seconds / 0.064)
    assert judged.covered
    assert expecting.identify(OTHER)
    assert expecting.judge([sample()]).expected is None


def test_a_given_profile_of_another_service_is_refused_with_the_difference() -> None:
    expecting = Expecting(given=founding())
    expecting.identify(OTHER)
    judged = expecting.judge([sample()])
    assert judged.expected is None
    assert "another service" in judged.reason
    assert "model" in expecting.refused[0]


def test_outside_the_evidence_it_may_predict_but_says_so() -> None:
    expecting = Expecting(given=founding())
    judged = expecting.judge([sample(total=60_000)])
    assert judged.expected is not None
    assert judged.expected.extrapolated
    assert not judged.covered
    assert "outside the evidence" in judged.reason


def test_an_unknown_context_cannot_be_judged() -> None:
    blind = Sample(at=0.0, batch=1, accept_length=3.0, throughput=90.0, step_seconds=0.03)
    assert "context" in Expecting(given=founding()).judge([blind]).reason
    ranks = [sample(dp=0), Sample(at=0.0, dp_rank=1, batch=1)]
    assert "all running requests" in Expecting(given=founding()).judge(ranks).reason


def test_ranks_that_step_together_carry_the_largest_load() -> None:
    expecting = Expecting(given=founding())
    ranks = [sample(total=1000, dp=0), sample(total=3000, dp=1)]
    judged = expecting.judge(ranks)
    assert judged.expected is not None
    step = founding().step_time.seconds(1, 3000)
    assert judged.expected.step_seconds == pytest.approx(step)
    assert judged.expected.tokens_per_second == pytest.approx(2 * 2.9 / step)
    apart = Expecting(given=founding())
    apart.identify(
        ServerView(arguments={"enable_dp_attention": False, "dp_size": 2, "model_path": "moonshotai/Kimi-K2.6"})
    )
    alone = apart.judge(ranks).expected
    assert alone is not None
    assert alone.tokens_per_second > judged.expected.tokens_per_second


def test_what_was_learned_before_is_recalled_by_identity() -> None:
    asked: list[Identity] = []
    kept = Learner(name="kept")

    def recall(identity: Identity) -> Learner | None:
        asked.append(identity)
        return kept if identity.model == "moonshotai/Kimi-K2.6" else None

    expecting = Expecting(recall=recall)
    expecting.identify(KIMI)
    assert expecting.learner is kept
    expecting.identify(OTHER)
    assert expecting.learner is not kept
    assert len(asked) == 2


def test_the_model_is_shown_with_its_curve_and_its_accept_range() -> None:
    expecting = Expecting(given=founding())
    judged = expecting.judge([sample()])
    now = Now(batch=1, context_tokens=3000.0, total_context_tokens=3000, throughput=45.0, accept_length=2.9)
    model = expecting.model(now, judged)
    assert model is not None
    assert (model.calibrated, model.learned, model.batch) == (False, False, 1)
    steps = [point.step_seconds for point in model.curve]
    assert steps == sorted(steps)
    assert {point.covered for point in model.curve} == {True, False}
    assert all(point.low <= point.step_seconds <= point.high for point in model.curve)
    assert expecting.model(now, Expecting().judge([])) is None


def test_the_curve_is_drawn_again_only_when_the_batch_or_the_model_changes() -> None:
    expecting = Expecting(given=founding())
    models = []
    for batch in (1, 1, 2):
        judged = expecting.judge([sample(batch=batch)])
        now = Now(batch=batch, context_tokens=3000.0 / batch, total_context_tokens=3000, accept_length=2.9)
        model = expecting.model(now, judged)
        assert model is not None
        models.append((model.batch, model.curve))
    assert [batch for batch, _ in models] == [1, 1, 2]
    assert models[0][1] is models[1][1]
    assert models[1][1] is not models[2][1]


def test_the_factors_multiply_to_measured_over_reference() -> None:
    profile = founding()
    now = Now(batch=1, context_tokens=4600.0, total_context_tokens=4600, throughput=32.2, accept_length=2.9)
    factors = factor_view(profile, now)
    reference = reference_view(profile)
    assert factors is not None
    assert reference is not None
    assert factors.accept_length == pytest.approx(2.9 / 7.4)
    product = 1.0
    for value in (factors.accept_length, factors.context, factors.batch, factors.unexplained):
        assert value is not None
        product *= value
    assert product == pytest.approx(32.2 / reference.tokens_per_second)
    assert factor_view(profile, Now()) is None
    assert factor_view(None, now) is None
    assert reference_view(None) is None


def test_ranks_that_step_together_are_part_of_the_factor_batch() -> None:
    profile = founding()
    step = profile.step_time.seconds(2, 6000)
    now = Now(batch=6, context_tokens=3000.0, total_context_tokens=18_000, throughput=6 * 2.9 / step, accept_length=2.9)
    factors = factor_view(profile, now, None, (2.0, 6000.0))
    assert factors is not None
    assert factors.unexplained == pytest.approx(1.0, abs=0.02)
    product = 1.0
    for value in (factors.accept_length, factors.context, factors.batch, factors.unexplained):
        assert value is not None
        product *= value
    assert now.throughput is not None
    assert product == pytest.approx(now.throughput / profile.references[0].tokens_per_second)


def test_the_model_is_shown_on_while_nothing_runs() -> None:
    monitor = Monitor(started_at=0.0, expecting=Expecting(given=founding()))
    for record in steady(0.065):
        monitor.accept(record)
    assert monitor.at(15.0).model is not None
    monitor.accept(last_of_request(15.2))
    idle = monitor.at(30.0)
    assert idle.verdict.name == "idle"
    assert idle.model is not None
    assert idle.reference is not None
    assert idle.expected is None


def test_live_steps_tell_a_fixed_offset_from_a_slope() -> None:
    expecting = Expecting(given=founding())
    model = founding().step_time
    for i in range(200):
        total = 500 + 25 * i
        expecting.see(sample(total=total, step=model.seconds(1, total) + 0.031, at=float(i)), suspicious=False)
    profile = founding()
    split = expecting.split_at(200.0, profile)
    assert split is not None
    assert split.offset_seconds == pytest.approx(0.031, abs=0.002)
    assert expecting.split_at(201.0, profile) is split
    now = Now(batch=1, context_tokens=3000.0, total_context_tokens=3000, throughput=29.0, accept_length=2.9)
    factors = factor_view(profile, now, split)
    assert factors is not None
    assert factors.unexplained_offset is not None
    assert factors.unexplained_offset < 0.75
    expecting.interrupt()
    assert expecting.split_at(202.0, profile) is None
    assert expecting.split_at(202.0, None) is None


def told(*records: Record, expecting: Expecting, until: float) -> Snapshot:
    monitor = Monitor(started_at=0.0, expecting=expecting)
    for record in records:
        monitor.accept(record)
        monitor.at(max(record.at, 0.0))
    return monitor.at(until)


def steady(step: float, tokens: int = 3000, count: int = 60, begin: float = 0.0) -> list[Record]:
    return [decode(begin + i * 0.25, tokens=tokens + 3 * i, accept=2.9, step=step) for i in range(count)]


def test_a_service_at_the_speed_of_its_model_is_as_expected_with_its_numbers() -> None:
    snapshot = told(*steady(0.065), expecting=Expecting(given=founding()), until=15.0)
    assert snapshot.verdict.name == "as-expected"
    assert snapshot.ratio == pytest.approx(1.0, abs=0.05)
    assert snapshot.expected is not None
    assert snapshot.expected.low < snapshot.expected.tokens_per_second < snapshot.expected.high
    assert snapshot.factors is not None
    assert snapshot.reference is not None
    assert snapshot.model is not None


def test_an_uncalibrated_profile_never_accuses() -> None:
    snapshot = told(*steady(0.130), expecting=Expecting(given=founding()), until=15.0)
    assert snapshot.verdict.name == "learning"
    assert "not calibrated" in snapshot.verdict.sentence


def test_a_contaminated_reading_has_no_ratio() -> None:
    records = [*steady(0.065), prefill(15.1, running=1), decode(15.2, tokens=3300, accept=2.9, step=0.4)]
    monitor = Monitor(started_at=0.0, expecting=Expecting(given=founding()))
    for record in records:
        monitor.accept(record)
    later = monitor.at(30.0)
    assert later.ratio is None
    assert later.factors is None


def test_a_load_that_was_never_seen_is_learned_and_then_judged() -> None:
    monitor = Monitor(started_at=0.0)
    monitor.accept(start(-9.0, model_path="a/b", tp_size=8))
    monitor.accept(ServerReady(at=-1.0))
    saved = 0
    for record in steady(0.065, count=200):
        monitor.accept(record)
        monitor.at(record.at)
        saved += monitor.learner() is not None
    snapshot = monitor.at(50.5)
    assert snapshot.verdict.name == "as-expected"
    assert snapshot.model is not None
    assert snapshot.model.learned
    assert saved > 0
    assert monitor.learner() is None
    assert [p.expected_throughput for p in monitor.history().points if p.state == "data"][-1] is not None


def test_another_setup_after_a_restart_is_judged_by_its_own_profile() -> None:
    monitor = Monitor(started_at=0.0, expecting=Expecting(given=founding()))
    monitor.accept(start(0.0, model_path="moonshotai/Kimi-K2.6"))
    monitor.accept(start(100.0, model_path="meta/Llama-4"))
    texts = [event.text for event in monitor.history().events if event.kind == "arguments"]
    assert any("another setup" in text for text in texts)
    assert any("the given profile is of another service" in text for text in texts)


def test_what_may_be_held_against_a_request_is_told_of_every_comparison() -> None:
    sure = Expecting(given=replace(founding(), calibrated=True))
    assert sure.judge([sample()]).doubt is None
    assert sure.judge([sample(total=60_000)]).doubt == "the model only guesses here"
    assert Expecting(given=founding()).judge([sample()]).doubt == "the model is not calibrated"


def test_ranks_that_step_apart_have_no_step_time_in_common() -> None:
    ranks = [sample(total=1000, dp=0), sample(total=5000, dp=1)]
    apart = Expecting(given=replace(founding(), calibrated=True))
    assert apart.judge(ranks).doubt is None
    apart.identify(replace(KIMI, arguments={**KIMI.arguments, "enable_dp_attention": False}))
    assert apart.judge(ranks).doubt == "ranks step apart"
    assert apart.judge([sample(dp=0), sample(dp=1)]).doubt is None


def finished(*others: Record, calibrated: bool = True) -> tuple[str, str | None]:
    """Verdict and reason of a request whose steps were as expected, and which got half of that."""
    monitor = Monitor(started_at=0.0, expecting=Expecting(given=replace(founding(), calibrated=calibrated)))
    lines = [decode(float(i), tokens=3000, step=0.064, accept=2.9) for i in range(1, 31)]
    for record in sorted([*lines, *others], key=lambda record: record.at):
        monitor.accept(record)
    monitor.accept(
        RequestDone(
            at=30.5,
            completion_tokens=300,
            latency_seconds=20.0,
            first_token_seconds=1.0,
            throughput_tokens_per_second=0.5 * 2.9 / 0.064,
            accept_length=2.9,
        )
    )
    (request,) = monitor.history().requests
    return request.verdict, request.reason


def test_a_slow_request_is_excused_by_what_the_monitor_saw_meanwhile() -> None:
    assert finished() == ("slow", None)
    assert finished(prefill(20.2, running=1)) == ("unjudged", "others' prefills inside")
    assert finished(ForwardPass(at=20.2, dp_rank=0, counter=1, seconds=0.5, prefill_requests=1)) == (
        "unjudged",
        "others' prefills inside",
    )
    assert finished(prefill(5.0)) == ("slow", None)
    assert finished(calibrated=False) == ("unjudged", "the model is not calibrated")

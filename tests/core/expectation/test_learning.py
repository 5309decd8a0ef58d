"""Learning covers cell by cell, freezes what it has covered, never learns under suspicion, and survives restarts."""

import pytest
from msgspec.structs import replace

from ddwatch.core.expectation.fit import Refusal
from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.learning import SETTLING, Learner
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.snapshot import Sample
from tests.core.expectation.worlds import World, power, world


def teach(learner: Learner, service: World, total: float, count: int, batch: int = 1, slower: float = 1.0) -> int:
    """Shows clean samples at one load; returns how often the profile changed."""
    return sum(learner.see(service.sample(float(index), batch, total, slower=slower), False) for index in range(count))


def known(learner: Learner) -> Profile:
    """What has been learned, which must be something."""
    assert learner.profile is not None
    return learner.profile


@pytest.fixture
def service() -> World:
    return world(power, 51)


def test_a_cell_settles_with_forty_samples_and_then_there_is_a_profile(service: World) -> None:
    learner = Learner(name="learned", identity=Identity(model="m"), judged={"version": "1"})
    assert teach(learner, service, 2000.0, SETTLING - 1) == 0
    assert learner.profile is None and not learner.covered(1, 2000.0)
    assert learner.reason(1, 2000.0) == "39 clean samples between 1.72k and 2.44k tokens at batch 1; need 40"
    assert teach(learner, service, 2000.0, 1) == 1
    profile = known(learner)
    assert profile.calibrated
    assert profile.identity == Identity(model="m")
    assert profile.evidence.provenance == "learned while running"
    assert learner.covered(1, 2000.0) and not learner.covered(1, 9000.0)
    assert profile.step_time.seconds(1, 2000.0) == pytest.approx(power(1, 2000.0), rel=0.02)
    coverage = learner.coverage()
    assert (coverage.samples, coverage.settled, coverage.open, coverage.batches) == (40, 1, 0, (1,))


def test_a_covered_cell_is_frozen_even_when_nothing_looks_suspicious(service: World) -> None:
    learner = Learner(name="learned")
    teach(learner, service, 2000.0, SETTLING)
    assert learner.profile is not None
    before = learner.profile.step_time, learner.profile.residuals, learner.profile.evidence
    teach(learner, service, 2000.0, 500, slower=1.5)
    assert learner.profile is not None
    assert (learner.profile.step_time, learner.profile.residuals, learner.profile.evidence) == before


def test_ranks_that_step_together_do_not_settle_a_cell_in_a_moment() -> None:
    learner, apart = Learner(name="learned"), Learner(name="learned", coupled=False)
    for index in range(120):
        for rank in range(4):
            sample = Sample(
                at=0.05 * index, dp_rank=rank, batch=1, total_context_tokens=2000, step_seconds=0.05 + 1e-5 * index
            )
            learner.see(sample, False)
            if index < 9:
                apart.see(sample, False)
        if index == 30:
            assert learner.coverage().samples == pytest.approx(31, abs=2), "one of four at each step"
    assert learner.coverage().settled == 1
    assert apart.coverage().samples == 36
    small = Learner(name="learned", most_cells=3)
    for index in range(60):
        small.see(
            Sample(
                at=0.0,
                dp_rank=index % 2,
                batch=1,
                total_context_tokens=int(10 * 1.5 ** (index % 20)),
                step_seconds=0.05,
            ),
            False,
        )
    assert small.coverage().open <= 3


def test_under_suspicion_and_from_contaminated_samples_nothing_is_learned(service: World) -> None:
    learner = Learner(name="learned")
    for index in range(100):
        assert not learner.see(service.sample(float(index), 1, 2000.0, slower=2.0), True)
        assert not learner.see(service.sample(float(index), 1, 2000.0, ("prefill",)), False)
    assert learner.coverage().samples == 0
    assert learner.coverage().total_context is None


def test_a_new_context_is_added_and_the_old_one_hardly_moves(service: World) -> None:
    learner = Learner(name="learned")
    teach(learner, service, 2000.0, SETTLING)
    assert learner.profile is not None
    before = learner.profile.step_time.seconds(1, 2000.0)
    teach(learner, service, 12_000.0, SETTLING)
    assert learner.profile.step_time.seconds(1, 2000.0) == pytest.approx(before, rel=0.01)
    assert learner.covered(1, 12_000.0) and learner.covered(1, 2000.0) and not learner.covered(1, 5000.0)


def test_accept_length_goes_on_learning_because_text_is_not_judged(service: World) -> None:
    learner = Learner(name="learned")
    teach(learner, service, 2000.0, SETTLING)
    assert learner.profile is not None
    assert teach(learner, service, 2000.0, 300) == 3
    (overall,) = learner.profile.accept
    assert overall.points[0].samples is not None and overall.points[0].samples > 200


def test_accept_lengths_wait_until_there_is_a_profile(service: World) -> None:
    learner = Learner(name="learned", interval=40)
    for index in range(150):
        assert not learner.see(service.sample(float(index), 1 + index % 16, 100.0 * 1.5 ** (index % 25)), False)
    assert learner.profile is None


def test_accept_lengths_that_turn_out_to_be_suspicious_are_given_up(service: World) -> None:
    learner = Learner(name="learned", interval=40)
    for index in range(60):
        learner.see(replace(service.sample(float(index), 1, 2000.0), accept_length=5.0), False)
    for index in range(60, 70):
        learner.see(replace(service.sample(float(index), 1, 2000.0), accept_length=1.1), False)

    assert learner.doubt(59.5)
    (curve,) = known(learner).accept
    assert curve.at(2000.0).p1 == 5.0
    assert curve.points[0].samples == 60
    assert not learner.doubt(59.5), "they are gone already"


def test_it_survives_a_restart_and_goes_on_where_it_was(service: World) -> None:
    learner = Learner(name="learned", identity=Identity(model="m"), judged={"version": "1"}, graph_sizes=(1, 2))
    teach(learner, service, 2000.0, SETTLING)
    teach(learner, service, 12_000.0, SETTLING - 1)

    again = Learner.restored(learner.state())

    assert isinstance(again, Learner)
    assert again.profile is not None and learner.profile is not None
    assert again.profile.step_time == learner.profile.step_time
    assert again.profile.residuals == learner.profile.residuals
    assert again.profile.evidence == learner.profile.evidence
    assert again.coverage() == learner.coverage()
    assert again.state() == learner.state()
    assert teach(again, service, 12_000.0, 1) == 1
    assert again.covered(1, 12_000.0)


def test_a_restart_before_anything_was_learned(service: World) -> None:
    again = Learner.restored(Learner(name="learned").state())
    assert isinstance(again, Learner) and again.profile is None


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff\xfe", b"null", b"[" * 5000, b'{"schema": "x"}'])
def test_a_state_that_cannot_be_read_is_refused(data: bytes) -> None:
    assert Learner.restored(data) == Refusal("the saved learning state cannot be read")


def test_a_state_of_another_version_is_refused_with_its_name() -> None:
    data = Learner(name="x").state().replace(b"ddwatch.learner/1", b"ddwatch.learner/9")
    found = Learner.restored(data)
    assert isinstance(found, Refusal)
    assert "ddwatch.learner/9" in found.sentence


def test_the_number_of_cells_is_bounded_and_cells_seen_once_do_not_stand_in_the_way(service: World) -> None:
    learner = Learner(name="learned", most_cells=10)
    for index in range(30):
        learner.see(Sample(at=0.0, batch=1, total_context_tokens=int(10 * 1.5**index), step_seconds=0.05), False)
    assert learner.coverage().open == 10
    teach(learner, service, 500.0, SETTLING)
    assert learner.covered(1, 500.0)


def test_when_every_cell_is_settled_no_more_are_added(service: World) -> None:
    learner = Learner(name="learned", most_cells=3)
    for total in (500.0, 2000.0, 8000.0):
        teach(learner, service, total, SETTLING)
    teach(learner, service, 32_000.0, SETTLING)
    assert not learner.covered(1, 32_000.0)
    assert (learner.coverage().settled, learner.coverage().open) == (3, 0)

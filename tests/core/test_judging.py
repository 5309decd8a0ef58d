"""What verdicts are reached from stands through a short silence, and follows the load without flicker."""

from random import Random

from ddwatch.core.expecting import Expecting
from ddwatch.core.history import EventLog, Ring
from ddwatch.core.judging import EDGE_SECONDS, HELD_SECONDS, Judging, most_committed
from ddwatch.core.snapshot import Now, Sample
from tests.core.detection.traffic import START, accept_samples
from tests.core.test_expecting import KIMI, OTHER, founding, sample


def judging() -> Judging:
    return Judging(Expecting(given=founding()), EventLog(Ring()), 0.0)


def may_judge(side: Judging) -> bool:
    return side.judgeable


def test_a_comparison_stands_through_a_short_silence() -> None:
    side = judging()
    for at in range(10):
        side.compare(float(at), [sample()])
    assert may_judge(side)
    side.compare(12.0, [])
    assert side.newest.expected is None
    assert side.held(12.0).expected is not None
    assert side.held(12.0 + HELD_SECONDS).expected is None


def test_the_edge_of_the_evidence_is_followed_with_hysteresis() -> None:
    side = judging()
    side.compare(0.0, [sample()])
    assert not may_judge(side)
    side.compare(EDGE_SECONDS, [sample()])
    assert may_judge(side)
    side.compare(EDGE_SECONDS + 1, [sample(total=60_000)])
    assert may_judge(side)
    assert side.held(EDGE_SECONDS + 1).covered
    side.compare(2 * EDGE_SECONDS + 1, [sample(total=60_000)])
    assert not may_judge(side)
    side.compare(2 * EDGE_SECONDS + 2, [sample(total=60_000)])
    assert not side.held(2 * EDGE_SECONDS + 2).covered


def test_a_contaminated_reading_is_not_compared() -> None:
    side = judging()
    flagged = Sample(
        at=0.0,
        batch=1,
        total_context_tokens=3000,
        context_tokens=3000.0,
        accept_length=2.9,
        throughput=20.0,
        step_seconds=0.1,
        flags=("prefill",),
    )
    side.compare(0.0, [flagged])
    assert side.newest.ratio is None
    assert side.newest.expected is not None
    assert side.clean_ratio_at is None
    reading = Now(batch=1, context_tokens=3000.0, throughput=20.0, accept_length=2.9, flags=("prefill",))
    assert side.factors(0.0, reading) is None


def test_an_interruption_forgets_at_once() -> None:
    side = judging()
    side.compare(0.0, [sample()])
    side.compare(EDGE_SECONDS, [sample()])
    side.interrupt(6.0, None, restarted=True)
    assert not may_judge(side)
    assert side.held(6.0).expected is None


def test_another_service_is_told_once() -> None:
    ring = Ring()
    side = Judging(Expecting(given=founding()), EventLog(ring), 0.0)
    side.identify(1.0, KIMI)
    side.identify(2.0, OTHER)
    side.identify(3.0, OTHER)
    assert [event.at for event in ring.since(0).events] == [2.0, 2.0]


def test_how_much_a_step_can_commit_is_read_from_the_arguments_where_it_says_something() -> None:
    assert most_committed({"speculative_num_steps": 15}) == 16
    assert most_committed({"speculative_num_steps": 3}) is None, "nearly all of three drafts may well be accepted"
    assert most_committed({"speculative_num_steps": True}) is None
    assert most_committed({"speculative_num_draft_tokens": 16}) == 16
    tree = {"speculative_num_draft_tokens": 33, "speculative_num_steps": 15}
    assert most_committed({**tree, "speculative_algorithm": "EAGLE3"}) == 16
    assert most_committed({"speculative_num_draft_tokens": 12, "speculative_num_steps": 0}) == 12
    block = {"speculative_num_draft_tokens": 16, "speculative_num_steps": 1}
    assert most_committed({**block, "speculative_algorithm": "DFLASH"}) == 16
    assert most_committed({}) is None


def test_a_broken_drafter_is_never_learned_as_normal_not_even_its_first_seconds() -> None:
    expecting = Expecting()
    side = Judging(expecting, EventLog(Ring()), START)
    dice = Random(1)
    for good in accept_samples(dice, 5.2, 60):
        side.sample(good, calm=True)
    for broken in accept_samples(dice, 1.05, 60, start=START + 120.0):
        side.sample(broken, calm=True)

    profile = expecting.learner.profile
    assert profile is not None
    (curve,) = profile.accept
    assert (curve.at(4000.0).p1 or 0.0) > 3.0

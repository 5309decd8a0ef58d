"""One detector per group of ranks that step together, inside the evidence, by the better witness."""

import msgspec

from ddwatch.core.detection.step_watch import StepWatch
from ddwatch.core.snapshot import Flag
from tests.core.detection.profiled import PROFILE, ratios, sample
from tests.core.detection.traffic import START


def phase(watch: StepWatch, now: float) -> str | None:
    """The phase of the only suspicion."""
    told = watch.suspicions(now)
    assert len(told) <= 1
    return told[0].phase if told else None


def test_a_slow_service_fires_and_says_so() -> None:
    watch = StepWatch(PROFILE)
    for number, ratio in enumerate(ratios(1.2, 20)):
        watch.see(sample(START + 2.0 * number, ratio))

    assert watch.suspicious
    assert watch.standing == "judged"
    (told,) = watch.suspicions(START + 40.0)
    assert (told.name, told.phase, told.group) == ("slow-step", "firing", None)


def test_a_profile_that_was_not_calibrated_here_accuses_nobody() -> None:
    watch = StepWatch(msgspec.structs.replace(PROFILE, calibrated=False))
    for number in range(50):
        watch.see(sample(START + 2.0 * number, 3.0))

    assert watch.suspicions(START + 100.0) == ()
    assert not watch.judges and watch.standing == "not judged"


def test_traffic_outside_the_evidence_is_never_accused() -> None:
    watch = StepWatch(PROFILE)
    for number in range(50):
        watch.see(sample(START + 2.0 * number, 2.0, total=40000))

    assert watch.standing == "outside evidence"
    assert watch.suspicions(START + 100.0) == ()


def test_next_to_the_evidence_a_model_that_errs_by_five_percent_accuses_nobody() -> None:
    watch = StepWatch(PROFILE)
    for number, ratio in enumerate(ratios(1.05, 2000)):
        watch.see(sample(START + 2.0 * number, ratio, total=24000))

    assert watch.suspicions(START + 4000.0) == ()


def test_contaminated_samples_are_not_judged() -> None:
    watch = StepWatch(PROFILE)
    every: tuple[Flag, ...] = ("first", "idle", "prefill", "batch-changed", "request-ended", "gap", "warming")
    for number in range(210):
        watch.see(sample(START + 2.0 * number, 3.0, flags=(every[number % 7],)))

    assert watch.suspicions(START + 420.0) == ()


def test_other_spans_and_witnesses_are_not_judged() -> None:
    watch = StepWatch(PROFILE)
    for number in range(50):
        watch.see(sample(START + 2.0 * number, 3.0, span="verify", provenance="fork-log"))
        watch.see(sample(START + 2.0 * number + 1.0, 3.0, provenance="fpm"))

    assert watch.suspicions(START + 100.0) == ()


def test_moments_count_before_log_lines() -> None:
    watch = StepWatch(PROFILE)
    for number in range(100):
        watch.see(sample(START + 2.0 * number, 1.0, provenance="moments"))
        watch.see(sample(START + 2.0 * number + 1.0, 2.0))
    assert watch.suspicions(START + 200.0) == ()

    for number in range(100, 140):
        watch.see(sample(START + 2.0 * number + 60.0, 2.0))
    assert phase(watch, START + 340.0) == "firing"


def test_eight_coupled_ranks_are_one_detector_and_one_incident() -> None:
    watch = StepWatch(PROFILE, coupled=True)
    rounds = 0
    for ratio in ratios(1.2, 30):
        rounds += 1
        for rank in range(8):
            at = START + 2.0 * rounds + 0.01 * rank
            watch.see(sample(at, ratio, dp_rank=rank, batch=1 + rank % 3, total=3000, carried=(3, 3000)))
        if phase(watch, START + 2.0 * rounds + 1.0) == "firing":
            break

    assert rounds <= 12
    (told,) = watch.suspicions(START + 2.0 * rounds + 1.0)
    assert "groups" not in told.evidence
    assert len(watch.stated()) == 1


def test_a_step_is_expected_to_last_as_long_as_the_busiest_coupled_rank_needs() -> None:
    watch = StepWatch(PROFILE, coupled=True)
    for number, ratio in enumerate(ratios(1.0, 400)):
        at = START + 2.0 * number
        watch.see(sample(at, ratio, dp_rank=0, batch=1, total=2000, carried=(8, 18000)))
        watch.see(sample(at + 0.1, ratio, dp_rank=1, batch=8, total=18000))

    assert watch.suspicions(START + 800.0) == ()


def test_a_rank_that_sleeps_holds_up_nothing() -> None:
    watch = StepWatch(PROFILE, coupled=True)
    for number, ratio in enumerate(ratios(1.0, 200)):
        for rank in range(4):
            watch.see(sample(START + 2.0 * number + 0.01 * rank, ratio, dp_rank=rank))
    assert watch.suspicions(START + 400.0) == ()
    for number, ratio in enumerate(ratios(1.2, 20), start=200):
        for rank in (0, 2):
            watch.see(sample(START + 2.0 * number + 0.01 * rank, ratio, dp_rank=rank))

    assert phase(watch, START + 440.0) == "firing"


def test_ranks_that_step_on_their_own_are_judged_on_their_own_and_told_as_one() -> None:
    watch = StepWatch(PROFILE, coupled=False)
    for number, ratio in enumerate(ratios(1.0, 60)):
        for rank in range(4):
            slow = 1.25 if rank == 2 else 1.0
            watch.see(sample(START + 2.0 * number + 0.1 * rank, ratio * slow, dp_rank=rank))
    (one,) = watch.suspicions(START + 120.0)
    assert (one.phase, one.group) == ("firing", "DP2")

    for number, ratio in enumerate(ratios(1.25, 60), start=60):
        for rank in range(4):
            watch.see(sample(START + 2.0 * number + 0.1 * rank, ratio, dp_rank=rank))
    (all_of_them,) = watch.suspicions(START + 240.0)
    assert (all_of_them.phase, all_of_them.group, all_of_them.evidence["groups"]) == ("firing", None, 4)


def test_a_restart_of_one_engine_leaves_the_others_alone() -> None:
    watch = StepWatch(PROFILE)
    for number, ratio in enumerate(ratios(1.3, 20)):
        for engine in ("a", "b"):
            watch.see(sample(START + 2.0 * number, ratio, engine=engine))
    watch.restart(START + 40.0, "a")

    (told,) = watch.suspicions(START + 40.0)
    assert (told.phase, told.group) == ("firing", "b")


def test_a_process_born_slow_is_judged_by_the_same_profile() -> None:
    watch = StepWatch(PROFILE)
    for number, ratio in enumerate(ratios(1.0, 100)):
        watch.see(sample(START + 2.0 * number, ratio))
    watch.restart(START + 200.0)
    for number, ratio in enumerate(ratios(1.25, 12)):
        watch.see(sample(START + 800.0 + 2.0 * number, ratio))

    assert phase(watch, START + 824.0) == "firing"


def test_more_learning_does_not_close_an_incident() -> None:
    watch = StepWatch(PROFILE)
    for number, ratio in enumerate(ratios(1.25, 20)):
        watch.see(sample(START + 2.0 * number, ratio))
    watch.use(msgspec.structs.replace(PROFILE, lag1=0.5))

    assert phase(watch, START + 40.0) == "firing"


def test_the_share_of_prefill_is_told_beside_what_was_usual_before() -> None:
    watch = StepWatch(PROFILE)
    clean = [sample(START + 0.5 * n, ratio) for n, ratio in enumerate(ratios(1.0, 60))]
    mixed = [
        sample(START + 30.0 + 0.5 * n, ratio, flags=("prefill",) if n % 2 else ())
        for n, ratio in enumerate(ratios(1.5, 200))
    ]
    for one in (*clean, *mixed):
        watch.see(one)

    (slow,) = watch.suspicions(START + 130.0)
    assert slow.phase == "firing"
    assert slow.evidence["prefill_share"] == 0.5
    usual = slow.evidence["usual_prefill_share"]
    assert isinstance(usual, float) and usual < 0.1, "what is seen under a suspicion is not usual"

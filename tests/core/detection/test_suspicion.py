"""Suspicions that are alike become one, told by the strongest."""

from ddwatch.core.detection.suspicion import SHOWN_SECONDS, Phase, Phases, Suspicion, merged
from tests.core.detection.traffic import START


def suspicion(name: str, phase: Phase, *, strength: float, group: str, since: float = START) -> Suspicion:
    """One with little in it."""
    return Suspicion(
        name=name, phase=phase, since=since, reached=since + 10.0, strength=strength, what="slower", group=group
    )


def test_eight_ranks_that_fail_at_once_are_one_incident() -> None:
    ranks = [
        suspicion("slow-step", "firing", strength=1.0 + rank, group=f"DP{rank}", since=START - rank)
        for rank in range(8)
    ]
    (one,) = merged(ranks)

    assert (one.strength, one.since, one.evidence["groups"], one.group) == (8.0, START - 7.0, 8, None)


def test_the_furthest_phase_speaks() -> None:
    (one,) = merged(
        [
            suspicion("slow-step", "pending", strength=9.0, group="DP0"),
            suspicion("slow-step", "firing", strength=1.0, group="DP1"),
            suspicion("slow-step", "resolved", strength=5.0, group="DP2"),
        ]
    )

    assert (one.phase, one.group) == ("firing", "DP1")


def test_different_things_stay_apart() -> None:
    both = merged(
        [
            suspicion("slow-step", "firing", strength=1.0, group="DP0"),
            suspicion("low-accept", "firing", strength=1.0, group="DP0"),
        ]
    )

    assert [one.name for one in both] == ["slow-step", "low-accept"]


def test_a_pending_suspicion_that_passes_leaves_no_trace() -> None:
    phases = Phases()
    assert not phases.fire(START)
    phases.pend(START, START - 5.0)
    phases.end(START + 5.0, "")

    assert phases.shown(START + 5.0) is None


def test_a_resolved_one_is_shown_for_a_while() -> None:
    phases = Phases()
    phases.pend(START, START)
    assert phases.fire(START + 1.0)
    phases.end(START + 2.0, "restart")

    assert phases.shown(START + 2.0 + SHOWN_SECONDS) == "resolved"
    assert phases.shown(START + 3.0 + SHOWN_SECONDS) is None


def test_the_sentence_leaves_out_a_place_that_says_nothing() -> None:
    one = suspicion("slow-step", "firing", strength=1.0, group="DP0")

    assert one.sentence("14:02") == "slower since 14:02"

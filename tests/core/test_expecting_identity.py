"""What was learned stays with its service while more becomes known of it, and leaves with the first contradiction."""

from msgspec.structs import replace

from ddwatch.core.expectation.identity import Identity, joined
from ddwatch.core.expectation.learning import SETTLING, Learner
from ddwatch.core.expecting import Expecting
from ddwatch.core.snapshot import Sample, ServerView

KIMI = ServerView(
    model="kimi",
    arguments={"model_path": "moonshotai/Kimi-K2.6", "speculative_algorithm": "DDTREE", "tp_size": 8},
)
CARDS = replace(KIMI, gpu_name="Card", gpu_count=8)
OTHER_CARDS = replace(KIMI, gpu_name="Card", gpu_count=4)
WIDE = replace(CARDS, block_size=16)
NARROW = replace(CARDS, block_size=8)


def taught(*, server: ServerView = KIMI, recall: dict[Identity, Learner] | None = None) -> Expecting:
    """A model side that has learned one load of a service."""
    known = recall or {}
    expecting = Expecting(recall=known.get)
    expecting.identify(server)
    for i in range(SETTLING + 5):
        expecting.see(
            Sample(
                at=float(i),
                batch=1,
                total_context_tokens=3000 + i,
                context_tokens=3000.0 + i,
                accept_length=2.9,
                throughput=2.9 / 0.065,
                step_seconds=0.065 * (1 + 0.01 * (i % 5 - 2)),
            ),
            suspicious=False,
        )
    return expecting


def learned(expecting: Expecting) -> bool:
    """Whether what was taught can be judged by."""
    return expecting.learner.covered(1, 3020)


def test_cards_that_become_known_take_nothing_away_and_give_the_profile_its_full_name() -> None:
    expecting = taught()
    before = expecting.learner.profile
    assert before is not None and before.identity is not None and before.identity.gpu is None

    assert expecting.identify(CARDS)

    after = expecting.learner.profile
    assert learned(expecting) and after is not None and after.identity is not None
    assert (after.identity.gpu, after.identity.gpu_count) == ("Card", 8)
    assert after.name == expecting.learner.name != before.name
    assert after.step_time == before.step_time


def test_cards_that_are_not_told_for_a_while_are_not_forgotten() -> None:
    expecting = taught(server=CARDS)

    expecting.identify(KIMI)
    assert learned(expecting) and expecting.learner.identity.gpu_count == 8
    expecting.identify(CARDS)
    assert learned(expecting)


def test_other_cards_are_another_setup_even_after_a_while_without_any() -> None:
    expecting = taught(server=CARDS)

    expecting.identify(KIMI)
    expecting.identify(OTHER_CARDS)
    assert not learned(expecting)


def test_another_block_size_after_a_start_that_told_none_is_another_setup() -> None:
    expecting = taught(server=WIDE)

    expecting.identify(CARDS)
    expecting.identify(NARROW)
    assert not learned(expecting)


def test_what_was_learned_of_nobody_known_is_not_given_to_somebody() -> None:
    expecting = taught(server=ServerView())

    expecting.identify(KIMI)
    assert not learned(expecting)


def test_what_was_kept_of_the_fuller_identity_comes_first() -> None:
    kept = Learner(name="kept")
    probe = Expecting()
    probe.identify(CARDS)
    expecting = taught(recall={probe.identity: kept})

    expecting.identify(CARDS)
    assert expecting.learner is kept


def test_what_was_kept_under_a_fuller_name_is_not_fetched_again_when_that_name_is_confirmed() -> None:
    """Without NVML at the start, the keeper found the one that it can be; then NVML says the same."""
    probe = Expecting()
    probe.identify(CARDS)
    kept = Learner(name="kept", identity=probe.identity)
    asked: list[Identity] = []

    def recall(identity: Identity) -> Learner | None:
        asked.append(identity)
        return kept

    expecting = Expecting(recall=recall)
    expecting.identify(KIMI)
    expecting.identify(CARDS)
    assert expecting.learner is kept
    assert len(asked) == 1


def test_what_was_kept_while_less_was_known_gets_its_full_name() -> None:
    probe = Expecting()
    probe.identify(KIMI)
    expecting = Expecting(recall=lambda identity: Learner(name="kept", identity=probe.identity))

    expecting.identify(CARDS)
    assert expecting.learner.identity.gpu == "Card"
    assert "8-card" in expecting.learner.name


def test_two_identities_are_joined_where_they_do_not_contradict() -> None:
    one, other = Identity(model="a/kimi", tp=8), Identity(model="kimi", gpu="Card", gpu_count=8)

    assert joined(one, other) == Identity(model="kimi", tp=8, gpu="Card", gpu_count=8)
    assert joined(one, Identity(model="a/kimi", tp=4)) is None
    assert joined(one, Identity(tp=8)) is None, "without the model on both sides nothing says that they are one"

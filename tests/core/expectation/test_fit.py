"""The fitter refuses thin evidence with a sentence, and what it fits says what it rests on."""

import pytest

from ddwatch.core.expectation.fit import Gathering, Refusal, fit_profile, remembered, thin
from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.profile_text import read_profile
from ddwatch.core.expectation.profile_toml import write_profile
from ddwatch.core.expectation.retention import Observation
from tests.core.expectation.worlds import GRAPHS, power, world


def gathered(count: int, seed: int = 31) -> Gathering:
    """What a clean log of one stream of requests leaves behind."""
    service = world(power, seed)
    gathering = Gathering()
    for index in range(count):
        batch, total = service.load()
        gathering.see(service.sample(float(index), batch, total), service.random.choice(["a", "b"]))
    return gathering


def fitted(gathering: Gathering) -> Profile | Refusal:
    return fit_profile(
        gathering.observations(),
        name="test",
        samples=gathering.samples,
        flags=gathering.flags,
        pairs=gathering.pairs(),
        windows=list(gathering.windows.kept),
        graph_sizes=GRAPHS,
        identity=Identity(model="m"),
        judged={"version": "1"},
        source="x.log",
        created="2026-05-01T00:00:00+00:00",
    )


def test_a_fit_says_what_it_rests_on_and_survives_its_file() -> None:
    found = fitted(gathered(1500))
    assert isinstance(found, Profile)
    assert found.calibrated
    assert found.evidence.samples == 1500
    assert found.evidence.batches == tuple(range(1, 17))
    assert found.evidence.provenance == "log"
    assert found.identity == Identity(model="m")
    assert found.classes() == ("a", "b")
    assert found.fit_error is not None and found.fit_error < 0.02
    assert found.covers(8, 20_000) and not found.covers(40, 20_000)
    assert read_profile(write_profile(found)) == found


def test_twelve_samples_are_refused_with_where_they_are() -> None:
    items = [Observation(batch=1, total_context=1800.0 + 36.0 * index, step_seconds=0.05) for index in range(12)]
    found = fit_profile(items, name="x", samples=12)
    assert found == Refusal("12 clean samples between 1.8k and 2.2k tokens; need 30")
    assert fit_profile(items[:1], name="x", samples=1) == Refusal("1 clean sample at 1.8k tokens; need 30")


def test_no_clean_sample_is_refused_with_what_made_them_dirty() -> None:
    assert thin([], 40, {"idle": 8, "prefill": 32}) == Refusal(
        "0 clean samples among 40 decode lines (prefill 32, idle 8); need 30"
    )
    assert thin([], 0, {}) == Refusal("no decode line was found; need 30")


def test_samples_that_are_nowhere_dense_are_refused() -> None:
    items = [Observation(batch=4**index, total_context=100.0 * 4**index, step_seconds=0.05) for index in range(6)] * 5
    found = fit_profile(items, name="x", samples=30)
    assert isinstance(found, Refusal)
    assert found.sentence.startswith("30 clean samples lie too far apart (batch 1 to 1024, 100 to 102k tokens)")


def test_contaminated_samples_are_counted_by_reason_and_never_fitted() -> None:
    service = world(power, 1)
    gathering = Gathering()
    for index in range(60):
        gathering.see(service.sample(float(index), 1, 2000.0 + index, ("prefill",) if index % 2 else ()))
    gathering.see(service.sample(99.0, 1, 2000.0, ("idle", "prefill")))
    assert (gathering.samples, gathering.clean) == (61, 30)
    assert gathering.flags == {"prefill": 31, "idle": 1}
    assert len(gathering.observations()) == 30
    assert gathering.pairs() == [], "a contaminated line stands between every two"


def test_a_cut_parts_what_follows_from_what_came_before() -> None:
    service = world(power, 1)
    gathering = Gathering()
    gathering.see(service.sample(0.0, 1, 2000.0))
    gathering.cut()
    gathering.see(service.sample(1.0, 1, 2000.0))
    assert gathering.pairs() == []
    gathering.see(service.sample(2.0, 1, 2000.0))
    assert len(gathering.pairs()) == 1


def test_a_curve_that_misses_its_own_evidence_explains_and_never_accuses() -> None:
    items = [
        Observation(batch=1, total_context=1000.0 + index, step_seconds=0.09 if index < 1000 else 0.05)
        for index in range(0, 4000, 4)
    ]
    found = fit_profile(items, name="x", samples=len(items))
    assert isinstance(found, Profile)
    assert not found.calibrated
    assert found.note is not None and "it never accuses" in found.note


def test_the_reference_is_the_fastest_tenth_at_the_smallest_usual_batch() -> None:
    items = [
        Observation(batch=batch, total_context=batch * 1000.0, step_seconds=0.05, accept_length=accept)
        for batch in (2, 8)
        for accept in [3.0] * 45 + [7.0] * 5
    ]
    found = remembered(items)
    assert found is not None and found.inferred
    assert (found.batch, found.accept, found.context) == (2, 7.0, 1000.0)
    assert found.tokens_per_second == pytest.approx(2 * 7.0 / 0.05)
    assert remembered(items[:20]) is None
    assert remembered([Observation(batch=1, total_context=1.0, step_seconds=1.0)] * 40) is None


def test_a_log_without_speculation_is_fitted_without_accept_curves() -> None:
    items = [Observation(batch=1, total_context=1000.0 + index, step_seconds=0.05) for index in range(60)]
    found = fit_profile(items, name="x", samples=60)
    assert isinstance(found, Profile)
    assert found.accept == () and found.references == ()

"""What was measured under another build or other flags is never merged into one fit."""

from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.setups import MOST_SETUPS, Setups
from ddwatch.core.records import GraphSizes, ServerReady, ServerStart, SpeculationSetup
from ddwatch.core.snapshot import Sample
from tests.core.expectation.worlds import power, world

SERVICE = world(power, 41)


def start(**more: str | int | bool) -> ServerStart:
    return ServerStart(at=0.0, arguments={"model_path": "org/m", "tp_size": 8, "attention_backend": "triton", **more})


def feed(setups: Setups, count: int, rank: int | None = None) -> None:
    for index in range(count):
        one = SERVICE.sample(float(index), 1, 1000.0 + index)
        sample = Sample(
            at=one.at,
            dp_rank=rank,
            batch=one.batch,
            total_context_tokens=one.total_context_tokens,
            step_seconds=one.step_seconds,
        )
        setups.see(ServerReady(at=0.0), sample)


def test_a_restart_with_other_parsers_goes_on_in_the_same_setup() -> None:
    setups = Setups()
    setups.begin(None)
    setups.see(start(), None)
    feed(setups, 10)
    setups.see(start(tool_call_parser="kimi", port=1), None)
    feed(setups, 5)
    chosen = setups.richest()
    assert chosen is not None and chosen.gathering.clean == 15
    assert setups.left_out(chosen) == []


def test_another_backend_is_kept_apart_and_the_richer_one_is_fitted() -> None:
    setups = Setups()
    setups.begin(None)
    feed(setups, 3)
    setups.see(start(), None)
    setups.see(GraphSizes(at=0.0, sizes=(1, 2, 4)), None)
    feed(setups, 10)
    setups.see(start(attention_backend="flashinfer"), None)
    feed(setups, 7)
    chosen = setups.richest()
    assert chosen is not None
    assert chosen.judged == {"attention_backend": "triton"}
    assert chosen.graph_sizes == (1, 2, 4)
    assert setups.left_out(chosen) == [
        "3 clean samples of a setup that the log does not name",
        "7 clean samples of another setup (attention_backend flashinfer)",
    ]


def test_what_the_drafter_announces_belongs_to_the_identity() -> None:
    setups = Setups()
    setups.begin(None)
    setups.see(start(), None)
    setups.see(SpeculationSetup(at=0.0, algorithm="DDTREE", tree_budget=32, block_size=16), None)
    feed(setups, 5)
    chosen = setups.richest()
    assert chosen is not None
    assert chosen.identity == Identity(model="org/m", tp=8, tree_budget=32, block_size=16)


def test_a_second_log_of_the_same_setup_is_added() -> None:
    setups = Setups()
    for _ in range(2):
        setups.begin(None)
        setups.see(start(), None)
        feed(setups, 10)
    chosen = setups.richest()
    assert chosen is not None and chosen.gathering.clean == 20


def test_ranks_under_dp_attention_share_their_load_and_others_do_not() -> None:
    for attention, batch in ((True, 8), (False, 1)):
        setups = Setups()
        setups.begin(None)
        setups.see(start(enable_dp_attention=attention), None)
        busy = Sample(at=0.0, dp_rank=0, batch=8, total_context_tokens=9000, step_seconds=0.05)
        setups.see(ServerReady(at=0.0), busy)
        feed(setups, 1, rank=1)
        chosen = setups.richest()
        assert chosen is not None
        assert min(item.batch for item in chosen.gathering.observations()) == batch


def test_more_setups_than_any_service_has_stay_bounded() -> None:
    setups = Setups()
    setups.begin(None)
    for index in range(3 * MOST_SETUPS):
        setups.see(start(page_size=index + 1), None)
        feed(setups, 1 + index)
    chosen = setups.richest()
    assert chosen is not None and chosen.gathering.clean == 3 * MOST_SETUPS
    told = setups.left_out(chosen)
    assert len(told) == MOST_SETUPS
    assert told[-1].endswith("samples of further setups")


def test_nothing_seen_is_no_setup() -> None:
    setups = Setups()
    setups.begin(None)
    setups.see(start(), None)
    assert setups.richest() is None

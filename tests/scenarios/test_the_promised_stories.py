"""What ddwatch promises to stay silent about and to find, and the story that proves each: none of them can vanish."""

from pathlib import Path

import pytest

from ddwatch.core.exits import VERDICT_EXITS, Exit
from ddwatch.core.snapshot import NoteName
from tests.scenarios.runner import read_story

HERE = Path(__file__).parent
SILENT: dict[str, tuple[str, ...]] = {
    "long context is not slow": ("long_context_is_not_slow",),
    "a request that ends between two lines": ("idle_between_two_lines",),
    "idle, then resume": ("idle_then_resume", "first_window_half_idle"),
    "chunked prefill for five minutes": ("prefill_starves_decode",),
    "batch 1, 16, 1": ("batch_1_16_1",),
    "code, then reasoning": (
        "code_to_reasoning",
        "code_to_reasoning_never_learned",
        "reasoning_beside_two_learned_kinds",
    ),
    "a restart at the same speed": ("restart_at_the_same_speed",),
    "warm-up after compiling": ("warm_up_after_jit", "jit_warms"),
    "log rotation": ("log_rotation",),
    "the clock jumps back": ("clock_jumps_back",),
    "an accept rate over 1": ("accept_rate_over_one",),
    "a data-parallel rank that sleeps": ("dp_rank_sleeps",),
    "a single hiccup of two seconds": ("one_hiccup_of_two_seconds",),
    "traffic outside the evidence": ("outside_the_evidence",),
    "a few slow lines in little traffic": ("few_slow_lines",),
    "a hot card without a longer step": ("throttling_card_without_a_longer_step",),
}
"""Nothing pages and no accept length is complained of; each story lists all verdicts and events that come."""

FOUND: dict[str, tuple[NoteName, tuple[str, ...]]] = {
    "latched +30.8 ms at 4k": ("slow-step", ("latched_offset_at_4k", "latched_offset_at_all_contexts")),
    "latched +30.8 ms at 32k": ("slow-step", ("latched_offset_at_32k", "latched_offset_at_all_contexts")),
    "a process born 25 % slow after a restart": ("slow-step", ("born_slow",)),
    "15 % slower, as by a clock": ("slow-step", ("slow_clock",)),
    "a steeper slope over context": ("slow-step", ("context_costs_twice",)),
    "CUDA graph off": ("slow-step", ("cuda_graph_off",)),
    "a ramp over five minutes": ("slow-step", ("ramp_over_five_minutes",)),
    "a hot card that every step waits for": ("slow-step", ("throttling_card",)),
    "a full KV pool that steps do not recover from": ("slow-step", ("retraction_not_recovered",)),
    "a slowdown that ends": ("slow-step", ("slow_and_well_again",)),
    "a slowdown that comes and goes": ("slow-step", ("slow_on_and_off",)),
    "slow since a pause": ("slow-step", ("slow_since_a_pause",)),
    "a PCIe link below its maximum": ("slow-step", ("pcie_link_below_its_maximum",)),
    "4.9 ms on the CPU in every step": ("slow-step", ("scheduler_takes_the_time",)),
    "eight ranks that fail at once": ("slow-step", ("eight_ranks_at_once", "eight_ranks_each_by_itself")),
    "drafter broken": ("low-accept", ("drafter_broken", "prefix_hit_breaks_the_drafter")),
    "drafter broken from the first line": ("low-accept", ("drafter_broken_from_the_first_line",)),
    "repetition loop": ("high-accept", ("repetition_loop", "repetition_loop_by_arguments")),
    "retraction storm": ("retractions", ("retraction_storm",)),
    "restarts in a row": ("restarts", ("restarts_in_a_row",)),
    "stall at 100 % utilisation": ("stalled", ("stalled_at_full_utilisation",)),
    "silence of the log with a live process": ("stalled", ("silent_log_of_a_live_process",)),
    "the process is gone": ("down", ("process_is_gone", "killed_server_is_down")),
}
"""Name of the incident that must begin, once, and the stories where it does."""

COMPLAINTS = {"low-accept", "high-accept"}


@pytest.mark.parametrize(("promise", "names"), SILENT.items(), ids=SILENT)
def test_it_stays_silent(promise: str, names: tuple[str, ...]) -> None:
    for name in names:
        story = read_story(HERE / f"{name}.toml")
        verdicts = {change.verdict for change in story.verdict}
        assert verdicts, f"{promise}: {name} lists no verdict"
        pages = {verdict for verdict in verdicts if VERDICT_EXITS[verdict] == Exit.PAGE}
        assert not pages | (verdicts & COMPLAINTS), f"{promise}: {name}"


@pytest.mark.parametrize(("promise", "proof"), FOUND.items(), ids=FOUND)
def test_it_is_found_once_with_sentence_onset_and_next_step(
    promise: str, proof: tuple[NoteName, tuple[str, ...]]
) -> None:
    incident, names = proof
    for name in names:
        story = read_story(HERE / f"{name}.toml")
        assert story.alerts is not None and story.alerts.get(incident) == 1, f"{promise}: {name} counts no incident"
        told = [change for change in story.verdict if change.verdict == incident]
        if told:
            first = told[0]
            assert first.says and first.next_step and first.since is not None, f"{promise}: {name}"
        else:
            assert any(incident in (shown.notes or ()) for shown in story.shown), f"{promise}: {name}"


def test_every_cause_that_can_be_named_is_named_in_a_story() -> None:
    causes = [change.cause for path in HERE.glob("*.toml") for change in read_story(path).verdict if change.cause]
    causes += [shown.cause for path in HERE.glob("*.toml") for shown in read_story(path).shown if shown.cause]
    for part in (
        "GPU 5",
        "GPU 3 has its PCIe link at Gen2",
        "keeps one core full",
        "CUDA graph is off",
        "the KV pool was full",
        "not recovered in",
        "it is slow since the restart",
        "it grows with the batch",
        "a prefix-cache hit",
        "it is slow since a pause",
        "prefill stands in",
        "nothing found",
    ):
        assert any(part in cause for cause in causes), part

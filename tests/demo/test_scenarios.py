"""The simulated log tells the truth of its own simulation, line by line and in the words of SGLang."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta, timezone
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

import pytest

from ddwatch.core.grammar import LogReader
from ddwatch.core.records import (
    Crash,
    DecodeBatch,
    PrefillBatch,
    Retraction,
    ServerReady,
    ServerStart,
    ServerStop,
    Unread,
)
from ddwatch.demo.engine import Step
from ddwatch.demo.gpus.cards import stretch
from ddwatch.demo.physics import TEXT_CLASSES, step_seconds
from ddwatch.demo.scenarios import LOAD_SECONDS, SCENARIOS, generate, scenario

START = 1_780_000_000.0
NAMES = [story.name for story in SCENARIOS]
DECODE = re.compile(
    r"\[(?P<stamp>[\d :-]+)(?: DP(?P<dp>\d))? TP\d\] Decode batch, #running-req: (?P<running>\d+), "
    r"#token: (?P<tokens>\d+), token usage: (?P<usage>[\d.]+), accept len: (?P<accept>[\d.]+), "
    r"accept rate: (?P<rate>[\d.]+), cuda graph: True, gen throughput \(token/s\): (?P<rate_out>[\d.]+), "
    r"#queue-req: \d+$"
)


class Line(NamedTuple):
    """The figures of one decode line."""

    at: float
    rank: int
    running: int
    tokens: int
    accept: float
    throughput: float


def decodes(lines: list[tuple[float, str]]) -> Iterator[Line]:
    for at, text in lines:
        found = DECODE.match(text)
        if found is not None:
            yield Line(
                at,
                int(found["dp"] or 0),
                int(found["running"]),
                int(found["tokens"]),
                float(found["accept"]),
                float(found["rate_out"]),
            )


def told(
    name: str, seed: int = 1, seconds: float = 120, interval: int = 1
) -> tuple[list[tuple[float, str]], list[Step]]:
    """Some seconds of a scenario after its load, with the truth beside it."""
    steps: list[Step] = []
    lines = list(generate(name, seed, START, LOAD_SECONDS + seconds, interval=interval, observe=steps.append))
    # The simulation runs up to one step ahead of its log.
    return lines, [step for step in steps if step.at <= START + LOAD_SECONDS + seconds]


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_read_by_the_grammar(name: str) -> None:
    reader = LogReader(timezone.utc, START)
    lines, _ = told(name, seconds=scenario(name).lead - LOAD_SECONDS + 60)
    records = [
        record for number, (_, line) in enumerate(lines, 1) for record in reader.read(line.encode(), None, number)
    ]
    records += reader.close()
    assert not [record for record in records if isinstance(record, Unread)]
    decode_lines = sum("Decode batch" in line for _, line in lines)
    prefill_lines = sum("Prefill batch" in line for _, line in lines)
    assert sum(isinstance(record, DecodeBatch) for record in records) == decode_lines == len(list(decodes(lines)))
    assert sum(isinstance(record, PrefillBatch) for record in records) == prefill_lines > 0
    # Nobody asks the idle server but itself.
    assert decode_lines > (0 if name == "server" else 300)


@pytest.mark.parametrize("name", NAMES)
def test_time_never_runs_back_and_stamps_show_it(name: str) -> None:
    lines, _ = told(name)
    assert all(before <= after for (before, _), (after, _) in pairwise(lines))
    stamps = [found[1] for _, line in lines if (found := re.match(r"\[(\d{4}-[\d :-]{14})", line))]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(name: str) -> None:
    first, _ = told(name, seed=5, seconds=40)
    again, _ = told(name, seed=5, seconds=40)
    other, _ = told(name, seed=6, seconds=40)
    assert first == again
    assert first != other


def test_only_stamps_depend_on_the_start_and_the_zone() -> None:
    shifted = list(generate("steady", 1, START + 7.0, LOAD_SECONDS + 30, zone=timezone(timedelta(hours=5))))
    plain, _ = told("steady", seconds=30)
    without = [re.sub(r"^\[[\d :-]{19}", "[", line) for _, line in plain]
    assert [re.sub(r"^\[[\d :-]{19}", "[", line) for _, line in shifted] == without


@pytest.mark.parametrize("name", ["steady", "founding", "idle", "retract", "restart"])
def test_one_clean_line_gives_the_true_step_time(name: str) -> None:
    """At interval 1 running x accept length / throughput is the step, unless something stood before it."""
    lines, steps = told(name)
    rows = list(decodes(lines))
    assert len(rows) == len(steps)
    clean = 0
    for (before, row), (previous, step) in zip(pairwise(rows), pairwise(steps), strict=True):
        computed = row.running * row.accept / row.throughput
        if step.at - previous.at == pytest.approx(step.seconds, abs=1e-6):
            clean += 1
            rounding = 0.005 / row.accept + 0.005 / row.throughput
            assert computed == pytest.approx(step.seconds, rel=rounding + 1e-6)
        else:
            assert computed > step.seconds * 1.05, f"{before} {row}: what stood before it must show"
        assert step.seconds == pytest.approx(step_seconds(step.batch, step.total_context_tokens), rel=0.2)
    assert clean > 0.9 * len(rows)


def test_step_times_scatter_around_the_truth_without_bias() -> None:
    _, steps = told("steady", seconds=280)
    errors = [math.log(step.seconds / step_seconds(step.batch, step.total_context_tokens)) for step in steps]
    assert len(errors) > 3000
    assert abs(fmean(errors)) < 0.003
    assert 0.025 < math.sqrt(fmean(error**2 for error in errors)) < 0.035


def test_accept_lengths_of_each_text_have_their_mean() -> None:
    _, steps = told("steady", seconds=280)
    by_text: dict[str, list[int]] = defaultdict(list)
    for step in steps:
        for text, accepted in zip(step.texts, step.accepted, strict=True):
            by_text[text].append(accepted)
    for kind in TEXT_CLASSES:
        drawn = by_text[kind.name]
        assert len(drawn) > 500
        assert abs(fmean(drawn) - kind.mean) < 4 * math.sqrt(kind.variance / len(drawn))


def test_the_first_line_after_idle_is_honestly_low() -> None:
    lines, steps = told("idle", seconds=290)
    rows = list(decodes(lines))
    pauses = [
        (row, step, previous)
        for (_, row), (previous, step) in zip(pairwise(rows), pairwise(steps), strict=True)
        if step.at - previous.at > 5
    ]
    assert len(pauses) >= 4
    for row, step, previous in pauses:
        assert row.throughput == pytest.approx(step.committed / (step.at - previous.at), abs=0.006)
        assert row.throughput < 4


def test_a_window_of_forty_steps_is_their_mean_and_ends_with_the_batch_of_its_last_step() -> None:
    lines, steps = told("steady", seconds=200, interval=40)
    rows = list(decodes(lines))
    assert len(rows) == len(steps) // 40
    for number, row in enumerate(rows[1:], 1):
        window = steps[40 * number : 40 * number + 40]
        before = steps[40 * number - 1]
        tokens = sum(step.committed for step in window)
        assert row.accept == pytest.approx(tokens / sum(step.batch for step in window), abs=0.0051)
        assert row.throughput == pytest.approx(tokens / (window[-1].at - before.at), abs=0.0051)
        assert row.running == window[-1].batch


def test_the_physics_do_not_depend_on_the_log_interval() -> None:
    _, every = told("steady", interval=1)
    _, some = told("steady", interval=40)
    assert every == some


def test_the_last_line_of_a_lone_request_has_no_tokens() -> None:
    lines, _ = told("founding")
    last = [row for row in decodes(lines) if row.tokens == 0]
    assert len(last) > 5
    assert {row.running for row in last} == {1}


def test_context_grows_with_what_was_committed() -> None:
    lines, steps = told("founding")
    rows = list(decodes(lines))
    for row, step in zip(rows, steps, strict=True):
        if row.tokens:
            assert row.tokens == step.total_context_tokens + step.committed


def test_founding_falls_to_less_than_a_quarter_with_nothing_wrong() -> None:
    """138 tokens/s, a restart with two parser flags, then long reasoning; the steps stay on the model."""
    lines, steps = told("founding", seconds=170 + 22 + 190)
    reader = LogReader(timezone.utc, START)
    records = [record for n, (_, line) in enumerate(lines, 1) for record in reader.read(line.encode(), None, n)]
    starts = [record for record in records if isinstance(record, ServerStart)]
    readies = [record for record in records if isinstance(record, ServerReady)]
    assert len(starts) == len(readies) == 2
    assert any(isinstance(record, ServerStop) for record in records)
    assert [start.arguments.get("reasoning_parser") for start in starts] == [None, "kimi_k2"] or (
        starts[0].withheld != starts[1].withheld or starts[0].arguments != starts[1].arguments
    )
    restart = next(at for at, line in lines if "SIGTERM" in line)
    remembered = [step for step in steps if START + LOAD_SECONDS + 5 < step.at < restart]
    late = [step for step in steps if step.at > restart and step.total_context_tokens > 5000]
    assert max(step.total_context_tokens for step in late) > 5900
    rate = sum(step.committed for step in remembered) / sum(step.seconds for step in remembered)
    slow = sum(step.committed for step in late) / sum(step.seconds for step in late)
    assert rate == pytest.approx(138, rel=0.08)
    assert slow < rate / 4
    ratio = median(step.seconds / step_seconds(step.batch, step.total_context_tokens) for step in late)
    assert ratio == pytest.approx(1.0, abs=0.02)


def test_chunked_prefill_starves_decoding() -> None:
    lines, _ = told("prefill", seconds=200)
    rows = list(decodes(lines))
    longest = max(after.at - before.at for before, after in pairwise(rows))
    assert longest > 10
    chunks = [line for _, line in lines if "Prefill batch" in line and "#pending-token: 0," not in line]
    assert len(chunks) > 10
    assert all("#new-token: 8192," in line for line in chunks)
    # Somebody was decoding while it happened.
    assert any(not re.search(r"#running-req: 0,", line) for line in chunks)


def test_data_parallel_ranks_step_together_and_some_sleep() -> None:
    lines, steps = told("dp", seconds=110)
    by_moment: dict[float, list[Step]] = defaultdict(list)
    for step in steps:
        by_moment[step.at].append(step)
    widest = max(len(group) for group in by_moment.values())
    assert widest == 8
    assert min(len(group) for group in by_moment.values()) < 6
    for group in by_moment.values():
        truth = step_seconds(max(s.batch for s in group), max(s.total_context_tokens for s in group))
        assert {step.seconds for step in group} == {group[0].seconds}
        assert group[0].seconds == pytest.approx(truth, rel=0.2)
    assert {row.rank for row in decodes(lines)} == set(range(8))


def test_a_small_pool_sends_requests_back() -> None:
    lines, steps = told("retract", seconds=200)
    reader = LogReader(timezone.utc, START)
    records = [record for n, (_, line) in enumerate(lines, 1) for record in reader.read(line.encode(), None, n)]
    assert sum(isinstance(record, Retraction) for record in records) >= 2
    pool = scenario("retract").pool_tokens
    assert max(step.total_context_tokens for step in steps) <= pool
    assert any(record.queued for record in records if isinstance(record, DecodeBatch))


def test_idle_is_really_idle() -> None:
    lines, _ = told("idle", seconds=290)
    pauses = [
        after - before
        for (before, _), (after, _) in pairwise(
            (at, line) for at, line in lines if "Decode" in line or "Prefill" in line or "POST" in line
        )
    ]
    assert sum(pause > 40 for pause in pauses) >= 2


def test_a_card_that_ails_makes_every_step_longer_from_then_on() -> None:
    for name, least in (("throttle", 1.3), ("pcie", 1.4), ("straggler", 1.15)):
        story = scenario(name)
        began = story.ailments[-1].after
        _, steps = told(name, seconds=began - LOAD_SECONDS + 60)
        ratios = {
            ails: median(
                step.seconds / step_seconds(step.batch, step.total_context_tokens)
                for step in steps
                if (step.at - step.seconds > START + began) == ails
            )
            for ails in (False, True)
        }
        assert ratios[False] == pytest.approx(1.0, abs=0.02), name
        assert ratios[True] == pytest.approx(stretch(story.ailments, began), rel=0.03), name
        assert ratios[True] > least, name


def test_a_power_cap_on_a_healthy_card_makes_no_step_longer() -> None:
    _, steps = told("power-cap", seconds=300)
    ratio = median(step.seconds / step_seconds(step.batch, step.total_context_tokens) for step in steps)
    assert ratio == pytest.approx(1.0, abs=0.04)


def test_a_lost_card_takes_the_engine_with_it() -> None:
    fell = scenario("gpu-lost").ailments[0].after
    lines, steps = told("gpu-lost", seconds=fell - LOAD_SECONDS + 120)
    reader = LogReader(timezone.utc, START)
    records = [record for n, (_, line) in enumerate(lines, 1) for record in reader.read(line.encode(), None, n)]
    crashes = [record for record in [*records, *reader.close()] if isinstance(record, Crash)]
    assert {crash.reason for crash in crashes} == {"AcceleratorError: CUDA error: unspecified launch failure", None}
    (died,) = (at for at, line in lines if "hit an exception" in line)
    # It hangs for a moment, then it is gone for good.
    assert 1 < died - (START + fell) < 10
    assert died - steps[-1].at > 1
    assert not [line for at, line in lines if at > died + 1]


def test_stories_say_which_of_them_page() -> None:
    paging = {story.name: story.pages for story in SCENARIOS if story.pages is not None}
    assert paging == {"throttle": "slow-step", "pcie": "slow-step", "straggler": "slow-step", "gpu-lost": "down"}
    assert all(scenario(name).ailments for name in paging)


def test_stories_have_one_line_each_and_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {"steady", "founding", "prefill", "idle", "restart", "dp"} <= set(NAMES)
    assert all("\n" not in story.story and 10 < len(story.story) < 110 for story in SCENARIOS)


def test_an_unknown_scenario_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        scenario("nonsense")

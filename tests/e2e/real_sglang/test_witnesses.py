"""All that a real SGLang tells beside its log and its moments, while it works, rests, is restarted and works again.

Its page, its forward passes, its records of finished requests and the same requests in its log are held against what
the observer inside it saw and what its clients got. The server that comes after the restart lives in the next hour, so
that its records are in another file.
"""

import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ddwatch.core import wire
from ddwatch.core.engine_view import EngineView
from ddwatch.core.request_view import FinishedRequest
from ddwatch.core.requests import HISTOGRAM_REQUESTS
from ddwatch.core.snapshot import History, Snapshot
from tests.e2e.real_sglang.server import Answer, Background, Server, free_port, serving
from tests.e2e.real_sglang.test_restart import within
from tests.sidecar.running import Sidecar, running

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(600)]

PASSES = ("--enable-forward-pass-metrics", "--forward-pass-metrics-ipc-name")
REQUESTS = ("--log-requests", "--export-metrics-to-file", "--export-metrics-to-file-dir")
STEPS = 600
"""Verify steps that are watched."""
DRAFTS = 4
"""Tokens that a step commits at most."""
PAGE_SECONDS = 5.0
"""Time between two looks at the page."""


class Told(NamedTuple):
    """One finished request by whoever else knows of it."""

    prompt_tokens: int | None
    completion_tokens: int | None
    latency_seconds: float | None


class Watched(NamedTuple):
    """What a sidecar said of two servers, one after the other, and what the observers and the clients saw of them."""

    busy: Snapshot
    pages: list[EngineView]
    """Each reading of the page while the first server worked."""
    idle: Snapshot
    after: Snapshot
    """While the second server worked."""
    last: Snapshot
    history: History
    page: str
    """When the first server had come to rest."""
    served: str
    """Everything that the sidecar served at the end."""
    said: list[str]
    recording: Path
    log: Path
    ran: list[dict[str, Any]]
    """What the first server ran, by its observer."""
    since: float
    """When its watched load began."""
    verified: list[list[int]]
    """Accept lengths of each verify step of both servers, from their beginning."""
    step_seconds: float
    """Mean time of contiguous steps, by the first server's own moments."""
    answers: list[Answer]
    records: dict[str, list[dict[str, Any]]]
    """Lines of SGLang's own records, by file."""


def seen(sidecar: Sidecar) -> Snapshot:
    return wire.decode_snapshot(sidecar.get("/v1/snapshot").content)


def history_of(sidecar: Sidecar) -> History:
    return wire.decode_history(sidecar.get("/v1/history").content)[0]


def summed(page: str, part: str, **labels: str) -> float:
    """A figure of ddwatch's histogram of step times, over all series with these labels."""
    found = 0.0
    for row in re.findall(rf"^ddwatch_verify_latency_seconds_{part}{{(.*)}} (\S+)$", page, re.MULTILINE):
        if all(f'{name}="{value}"' in row[0] for name, value in labels.items()):
            found += float(row[1])
    return found


def recorded(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of each record file, in order of time."""
    return {
        path.name: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(folder.glob("*.log"))
    }


def written(folder: Path) -> int:
    return sum(map(len, recorded(folder).values()))


def settled(sidecar: Sidecar, records: Path) -> bool:
    """Whether both witnesses of finished requests have told of all of them."""
    lines, count = [one.lines for one in seen(sidecar).sources if one.name == "requests"], written(records)
    return lines == [count] and len(history_of(sidecar).requests) == count


def told_twice(snapshot: Snapshot) -> Snapshot | None:
    """A snapshot in which both other witnesses speak."""
    rate = snapshot.engine.decode_tokens_per_second if snapshot.engine is not None else None
    wait = snapshot.forward.wait_seconds if snapshot.forward is not None else None
    return snapshot if rate is not None and wait is not None else None


def worked(server: Server, sidecar: Sidecar, before: int, pages: list[EngineView], busy: list[Snapshot]) -> bool:
    """Whether enough has been seen; collects what the page says meanwhile."""
    snapshot = seen(sidecar)
    if snapshot.engine is not None and (not pages or snapshot.engine.at > pages[-1].at):
        pages.append(snapshot.engine)
    if told_twice(snapshot) is not None:
        busy.append(snapshot)
    return len(busy) > 0 and len(server.verified()) - before > STEPS and len(pages) > 3


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("told")
    name, records, log, port = f"ipc://{folder}/fpm", folder / "records", folder / "sglang.log", free_port()
    flags = (*PASSES, name, *REQUESTS, str(records))
    words = ("--log", str(log), "--sglang-url", f"http://127.0.0.1:{port}", "--fpm", name, "--tz", "UTC")
    more = ("--request-metrics", str(records), "--record", str(folder / "kept"), "--no-learn", "--no-nvml")
    pages: list[EngineView] = []
    busy: list[Snapshot] = []
    log.touch()
    with running(*words, *more) as sidecar:
        with serving(folder, *flags, port=port, log=log) as server:
            within(60, lambda: seen(sidecar).forward is not None, "what the engine publishes at rest")
            answers = server.load(1, users=2, requests=1, tokens=48)
            since, (moments,), stepped = time.time(), server.moments(), len(server.verified())
            with Background(server, 7) as first:
                within(180, lambda: worked(server, sidecar, stepped, pages, busy), "enough steps, passes and pages")
            within(
                60,
                lambda: (one := seen(sidecar).forward) is not None and one.resting,
                "the engine at rest",
            )
            within(30, lambda: settled(sidecar, records), "each request to be told")
            idle, page = seen(sidecar), sidecar.get("/metrics").text
            (after,) = server.moments()
            ran, steps = server.ran(), server.verified()
        (folder / "observed.jsonl").unlink()
        with serving(folder, *flags, port=port, log=log, zone="UTC-1") as server:
            with Background(server, 8) as second:
                again = within(180, lambda: told_twice(seen(sidecar)), "the new server's page and its passes")
            within(30, lambda: settled(sidecar, records), "each request to be told")
            last, history = seen(sidecar), history_of(sidecar)
            served = "".join(sidecar.get(path).text for path in ("/v1/snapshot", "/v1/history", "/metrics"))
            steps += server.verified()
        assert again is not None
        sidecar.end()
    yield Watched(
        busy=busy[-1],
        pages=pages,
        idle=idle,
        after=again,
        last=last,
        history=history,
        page=page,
        served=served,
        said=sidecar.said,
        recording=next((folder / "kept").glob("*.sqlite")),
        log=log,
        ran=ran,
        since=since,
        verified=steps,
        step_seconds=(after[2] - moments[2]) / (after[0] - moments[0]) / 1e6,
        answers=[*answers, *first.answers, *second.answers],
        records=recorded(records),
    )


def kept(recording: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of a recording."""
    connection = sqlite3.connect(recording)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def steps_of(watched: Watched) -> list[dict[str, Any]]:
    """The verify steps of the first server's watched load."""
    return [event for event in watched.ran if event["ev"] == "verify" and event["at"] >= watched.since]


# Forward passes.


def test_every_verify_step_is_one_forward_pass_of_the_same_batch(watched: Watched) -> None:
    """Each pass is kept with its batch and its context; one that did not come would be counted as lost."""
    steps = steps_of(watched)
    told = kept(
        watched.recording,
        "SELECT batch, total_context_tokens, step_seconds FROM samples WHERE span = 'forward' AND batch > 0 "
        f"AND at BETWEEN {steps[0]['at'] - 0.5} AND {watched.idle.at} ORDER BY at",
    )
    # Passes of the requests before may have come within the half second.
    told = told[-len(steps) :]

    assert watched.idle.forward is not None and watched.idle.forward.lost == 0
    assert [row[0] for row in told] == [len(step["accept_lens"]) for step in steps]
    assert all(
        abs(context - sum(step["kv_lens"])) <= DRAFTS * batch
        for (batch, context, _), step in zip(told, steps, strict=True)
    )
    assert all(seconds > 0 for _, _, seconds in told)


def test_the_forward_pass_is_the_larger_part_of_the_step_and_no_more(watched: Watched) -> None:
    """Drafts and verification run one after another on this machine, and the scheduler takes the rest."""
    count = summed(watched.page, "count", span="forward")
    forward = summed(watched.page, "sum", span="forward") / count

    assert summed(watched.page, "count", span="forward", provenance="fpm", resolution="step") == count > STEPS / 2
    assert 0.3 * watched.step_seconds < forward < 1.3 * watched.step_seconds


def test_they_explain_and_are_never_judged(watched: Watched) -> None:
    assert watched.busy.now.span == "step"
    assert watched.busy.now.provenance in ("log", "moments")
    assert {source.name: source.state for source in watched.busy.sources} == {
        "log": "up",
        "loads": "up",
        "metrics": "up",
        "fpm": "up",
        "requests": "up",
    }
    assert summed(watched.page, "count", span="step", provenance="fpm") == 0
    assert {
        row[0] for row in kept(watched.recording, "SELECT DISTINCT span FROM samples WHERE provenance = 'fpm'")
    } == {"forward"}
    assert watched.idle.verdict.name == "idle"


# The page.


def test_the_page_tells_what_runs(watched: Watched) -> None:
    """Held against the steps around the moment at which it was read."""
    steps, compared = steps_of(watched), 0
    for engine in watched.pages:
        around = [step for step in steps if abs(step["at"] - engine.at) < 1.0]
        if not around or engine.total_context_tokens is None:
            continue
        compared += 1
        contexts = [sum(step["kv_lens"]) for step in around]
        assert engine.ranks == 1 and engine.queued == 0 and engine.graph_ratio in (0.0, None)
        assert engine.running in {len(step["accept_lens"]) for step in around}
        assert min(contexts) - 2 * DRAFTS <= engine.total_context_tokens <= max(contexts) + 2 * DRAFTS
    assert compared > 1


def test_its_counters_give_the_rate_of_what_was_committed(watched: Watched) -> None:
    """Over the stretch of its own, which the page is read too seldom to know to the second."""
    steps = [event for event in watched.ran if event["ev"] == "verify"]
    times, tokens = [step["at"] for step in steps], [sum(step["accept_lens"]) for step in steps]
    found = [engine for engine in watched.pages if engine.decode_tokens_per_second is not None]

    assert found
    for engine in found:
        told, error = engine.decode_tokens_per_second, engine.error
        assert told is not None and error is not None
        rates = [
            sum(n for at, n in zip(times, tokens, strict=True) if begin < at <= end) / (end - begin)
            for end in (engine.at - late for late in range(int(2 * PAGE_SECONDS)))
            for begin in (end - length for length in range(5, 60))
            if begin >= times[0]
        ]
        assert min(rates) * (1 - error) - 1 <= told <= max(rates) * (1 + error) + 1


def test_a_healthy_server_is_never_said_to_contradict_itself(watched: Watched) -> None:
    told = [event.text for event in watched.history.events if event.kind in ("source", "gap")]

    assert [text for text in told if " off " in text or "differ" in text or "did not arrive" in text] == []


# Finished requests.


def test_each_request_is_told_once_though_its_log_and_its_records_tell_of_it(watched: Watched) -> None:
    log = watched.log.read_text(encoding="utf-8")
    records = [record for file in watched.records.values() for record in file]
    told = Counter(
        Told(one.prompt_tokens, one.completion_tokens, one.latency_seconds) for one in watched.history.requests
    )

    assert log.count("] Finish: obj=") == len(records) == len(watched.history.requests)
    assert len(watched.answers) > 10
    for answer in watched.answers:
        assert told[Told(*answer.key)] == 1
    assert set(told) == {Told(one["prompt_tokens"], one["completion_tokens"], one["e2e_latency"]) for one in records}
    assert {one.finish_reason for one in watched.history.requests} == {"length"}


def test_its_speed_is_that_of_its_client(watched: Watched) -> None:
    told = {one.latency_seconds: one for one in watched.history.requests}
    for answer in watched.answers:
        one: FinishedRequest = told[answer.latency_seconds]
        rest = answer.completion_tokens - 1
        assert one.throughput is not None and not one.whole
        assert one.first_token_seconds is not None and 0 < one.first_token_seconds < answer.latency_seconds
        assert 0.98 * rest / answer.seconds <= one.throughput
        assert one.throughput <= 1.02 * rest / (answer.latency_seconds - one.first_token_seconds)


def test_the_accept_histogram_is_exactly_what_was_committed(watched: Watched) -> None:
    records = [record for file in watched.records.values() for record in file]
    of = {record["e2e_latency"]: record["spec_correct_drafts_histogram"] for record in records}
    everything = sum((Counter(dict(enumerate(drafts))) for drafts in of.values()), Counter[int]())
    newest: Counter[int] = Counter()
    for request in watched.history.requests[-HISTOGRAM_REQUESTS:]:
        assert request.latency_seconds is not None
        newest.update(dict(enumerate(of[request.latency_seconds])))

    assert everything == Counter(tokens - 1 for step in watched.verified for tokens in step)
    for answer in watched.answers:
        assert tuple(of[answer.latency_seconds]) == answer.accepted_drafts
    assert watched.last.accepted is not None
    assert watched.last.accepted.requests == min(HISTOGRAM_REQUESTS, len(watched.history.requests))
    assert dict(enumerate(watched.last.accepted.steps)) == newest


def test_no_word_of_a_request_is_served_or_kept(watched: Watched) -> None:
    names = [record["id"] for file in watched.records.values() for record in file]
    words = (*names, "quick", "brown", "request_parameters")
    everywhere = (watched.served + "\n".join(watched.said)).encode() + watched.recording.read_bytes()

    assert all(word in watched.log.read_text(encoding="utf-8") for word in ("quick", "brown", names[0]))
    assert [word for word in words if word.encode() in everywhere] == []


# The restart.


def test_a_restart_begins_its_counters_anew_without_a_rate_below_nothing(watched: Watched) -> None:
    kinds = Counter(event.kind for event in watched.history.events)

    assert watched.last.server.restarts == kinds["restart"] == 1
    assert watched.after.engine is not None and watched.after.engine.at > watched.idle.at
    assert all(point.throughput is None or point.throughput >= 0 for point in watched.history.points)
    rates = [row[0] for row in kept(watched.recording, "SELECT throughput FROM samples WHERE throughput IS NOT NULL")]
    assert rates and min(rates) >= 0


def test_after_it_the_forward_passes_are_those_of_the_new_server(watched: Watched) -> None:
    forward = watched.after.forward
    assert forward is not None and forward.at > watched.idle.at
    assert (forward.lost, forward.batch in (1, 2), forward.ranks) == (0, True, 1)


def test_after_it_the_next_record_file_is_read(watched: Watched) -> None:
    assert len(watched.records) >= 2 and all(watched.records.values())
    first, *_, last = watched.records.values()
    told = {one.latency_seconds for one in watched.history.requests}
    assert {record["e2e_latency"] for record in (*first, *last)} <= told
    (source,) = [one for one in watched.last.sources if one.name == "requests"]
    assert (source.state, source.lines, source.gaps) == ("up", sum(map(len, watched.records.values())), 0)

"""The simulated port speaks SGLang's HTTP, and what it says is what its engine did."""

import json
import re
import threading
import time
from collections.abc import Iterator
from datetime import timezone
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import pytest

from ddwatch.core.arguments import read_arguments
from ddwatch.core.grammar import LogReader
from ddwatch.core.loads import read_loads
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import SourceUp
from ddwatch.demo import answers
from ddwatch.demo.engine import Simulation, Step
from ddwatch.demo.physics import REASONING, step_seconds
from ddwatch.demo.requests import Request
from ddwatch.demo.scenarios import LOAD_SECONDS, acts, scenario, simulation
from tests.fakes.simulated import Simulated, simulated

START = 1_780_000_000.0
GOLDEN = Path(__file__).parent.parent / "golden" / "real_sglang"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    """An idle server, twenty times as fast as real."""
    with simulated(tmp_path_factory.mktemp("service") / "sglang.log", speed=20) as running:
        yield running


def ask(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = httpx.post(url + path, json=body, timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def generate(url: str, text: str, tokens: int) -> dict[str, Any]:
    body = {"text": text, "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0}}
    found: dict[str, Any] = ask(url, "/generate", body)["meta_info"]
    return found


def until(log: Path, pattern: str) -> str:
    """Waits for a line."""
    deadline, pause = time.monotonic() + 20, threading.Event()
    while True:
        found = re.search(pattern, log.read_text(encoding="utf-8"))
        if found is not None:
            return found[0]
        assert time.monotonic() < deadline, f"no line {pattern}"
        pause.wait(0.02)


def test_its_documents_have_the_keys_of_the_captured_ones(service: Simulated) -> None:
    for path, name in (("/v1/loads?include=all", "ngram-v1_loads.json"), ("/server_info", "ngram-server_info.json")):
        real = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
        ours = httpx.get(service.url + path, trust_env=False).json()
        if "loads" in real:
            assert real.keys() == ours.keys()
            assert ours["loads"][0].keys() <= real["loads"][0].keys()
            assert len(ours["loads"][0]["decode_moments"]) == 6
        else:
            assert len(real.keys() & ours.keys()) > 300


def test_a_request_really_runs_through_the_engine(service: Simulated) -> None:
    meta = generate(service.url, "why is the sky blue and the grass green, think about it", 320)
    assert meta["completion_tokens"] == 320
    assert meta["finish_reason"] == {"type": "length", "length": 320}
    histogram = meta["spec_correct_drafts_histogram"]
    assert sum(histogram) == meta["spec_verify_ct"]
    mean = 1 + sum(k * n for k, n in enumerate(histogram)) / sum(histogram)
    assert mean == pytest.approx(REASONING.mean, abs=4 * (REASONING.variance / sum(histogram)) ** 0.5)
    expected = sum(histogram) * step_seconds(1, 160)
    assert meta["e2e_latency"] == pytest.approx(expected + 0.06, rel=0.15)
    until(service.log, r"Prefill batch, #new-seq: 1, #new-token: 1[0-9],")
    until(service.log, r'INFO:     127\.0\.0\.1:\d+ - "POST /generate HTTP/1\.1" 200 OK')


def test_the_moments_hold_the_contiguous_steps_only(service: Simulated) -> None:
    def moments() -> tuple[float, ...]:
        loads = read_loads(httpx.get(f"{service.url}/v1/loads", trust_env=False).content, 0.0, "loads")
        assert loads.ranks[0].moments is not None
        return loads.ranks[0].moments

    # What earlier requests left unpublished is flushed by one of one's own.
    generate(service.url, "first why", 100)
    before = moments()
    for number in range(3):
        generate(service.url, f"{number} why", 200)
    steps, batches, micros, squares, mixed, tokens = (b - a for a, b in zip(before, moments(), strict=True))
    assert steps == batches == squares
    assert mixed == micros
    # The first step after each prefill is left out, and the newest ones are not published yet.
    assert 100 < steps < 260
    assert micros / steps / 1e6 == pytest.approx(step_seconds(1, 100), rel=0.02)
    assert tokens / batches == pytest.approx(REASONING.mean, rel=0.25)


def test_a_prefix_that_was_seen_is_cached_and_a_new_one_is_not(service: Simulated) -> None:
    text = "one two three four five six seven eight nine ten"
    assert generate(service.url, text, 2)["cached_tokens"] == 0
    assert generate(service.url, text + " more", 2)["cached_tokens"] == 10
    assert generate(service.url, "unique " + text, 2)["cached_tokens"] == 0


def test_requests_together_make_a_batch(service: Simulated) -> None:
    threads = [threading.Thread(target=generate, args=(service.url, f"{n} why not", 400)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "#running-req: 4" in until(service.log, r"Decode batch, #running-req: 4,[^\n]*")


def test_a_client_that_leaves_takes_its_request_along(service: Simulated) -> None:
    body = {"text": "why", "sampling_params": {"max_new_tokens": 100_000, "ignore_eos": True}}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{service.url}/generate", json=body, timeout=0.5, trust_env=False)
    deadline, pause = time.monotonic() + 20, threading.Event()
    while httpx.get(f"{service.url}/v1/loads", trust_env=False).json()["loads"][0]["num_running_reqs"]:
        assert time.monotonic() < deadline
        pause.wait(0.02)


def test_chat_separates_thinking_and_calls_tools_as_the_parsers_say(service: Simulated) -> None:
    tool = {
        "type": "function",
        "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
    body = {"messages": [{"role": "user", "content": "the weather in Oslo"}], "tools": [tool]}
    answer = ask(service.url, "/v1/chat/completions", body)
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning_content"]
    (call,) = choice["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}
    short = ask(service.url, "/v1/chat/completions", {**body, "max_tokens": 8})
    assert short["choices"][0]["finish_reason"] == "length"
    assert short["choices"][0]["message"]["content"] == ""
    assert short["usage"]["completion_tokens"] == 8


def test_without_parsers_everything_is_content(tmp_path: Path) -> None:
    with simulated(tmp_path / "log", "idle", speed=20, more=("--lead", "600")) as running:
        body = {"messages": [{"role": "user", "content": "hello"}]}
        (choice,) = ask(running.url, "/v1/chat/completions", body)["choices"]
    assert choice["message"]["reasoning_content"] is None
    assert choice["message"]["content"].startswith("<think>")
    assert "</think>" in choice["message"]["content"]


def test_a_chat_stream_has_fewer_chunks_than_tokens_and_ends_with_its_usage(service: Simulated) -> None:
    body = {
        "messages": [{"role": "user", "content": "tell me why"}],
        "max_tokens": 60,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    with httpx.stream("POST", f"{service.url}/v1/chat/completions", json=body, trust_env=False) as answer:
        data = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert data[-1] == "[DONE]"
    chunks = [json.loads(text) for text in data[:-1]]
    assert chunks[-1]["usage"]["completion_tokens"] == 60
    assert 10 < len(chunks) < 55


def test_a_generate_stream_counts_tokens_not_chunks(service: Simulated) -> None:
    body = {"text": "1 2 3", "stream": True, "sampling_params": {"max_new_tokens": 50, "ignore_eos": True}}
    with httpx.stream("POST", f"{service.url}/generate", json=body, trust_env=False) as answer:
        data = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    counts = [json.loads(text)["meta_info"]["completion_tokens"] for text in data[:-1]]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 50)


def test_polls_are_lines_in_its_log_as_in_the_real_one(service: Simulated) -> None:
    httpx.get(f"{service.url}/v1/loads?include=all", trust_env=False)
    httpx.get(f"{service.url}/nonsense", trust_env=False)
    until(service.log, r'INFO:     127\.0\.0\.1:\d+ - "GET /v1/loads\?include=all HTTP/1\.1" 200 OK')
    until(service.log, r'"GET /nonsense HTTP/1\.1" 404 Not Found')


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/generate", b"nonsense"),
        ("/generate", b"[]"),
        ("/generate", b'{"sampling_params": {}}'),
        ("/generate", b'{"text": "a", "sampling_params": {"max_new_tokens": 300000, "ignore_eos": true}}'),
        ("/v1/chat/completions", b'{"messages": []}'),
    ],
)
def test_bad_bodies_are_refused(service: Simulated, path: str, body: bytes) -> None:
    answer = httpx.post(service.url + path, content=body, trust_env=False)
    assert answer.status_code == 400
    assert answer.json()["message"]


def test_with_a_key_only_the_key_opens_it(tmp_path: Path) -> None:
    with simulated(tmp_path / "log", more=("--key", "sesame")) as running:
        assert httpx.get(f"{running.url}/server_info", trust_env=False).status_code == 401
        assert httpx.get(f"{running.url}/health", trust_env=False).status_code == 200
        headers = {"Authorization": "Bearer sesame"}
        assert httpx.get(f"{running.url}/server_info", headers=headers, trust_env=False).status_code == 200


def test_while_the_server_is_down_its_port_refuses(tmp_path: Path) -> None:
    with simulated(tmp_path / "log", "restart", speed=20, more=("--lead", str(LOAD_SECONDS + 30))) as running:
        seen: list[bool] = []
        deadline, pause = time.monotonic() + 30, threading.Event()
        while seen[-2:] != [False, True]:
            try:
                arguments = read_arguments(httpx.get(f"{running.url}/server_info", trust_env=False).text, b"").allowed
                up = True
            except httpx.TransportError:
                up = False
            if seen[-1:] != [up]:
                seen.append(up)
            assert time.monotonic() < deadline, seen
            pause.wait(0.02)
    assert seen[0] is True
    assert arguments["max_running_requests"] == 48


class Watcher:
    """Reads /v1/loads every two simulated seconds and hands it to a monitor."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.next = 0.0

    def reach(self, simulation: Simulation) -> None:
        if simulation.serving and simulation.at >= self.next:
            self.next = simulation.at + 2.0
            document = json.dumps(answers.loads(simulation.loads(), simulation.at)).encode()
            self.monitor.accept(read_loads(document, simulation.at, "loads"))

    def idle(self, simulation: Simulation, until: float) -> float:
        return min(until, simulation.at + 2.0)

    def asked(self) -> list[Request]:
        return []


def watched(name: str, seconds: float = 300.0) -> Monitor:
    """A whole story through log and moments at once."""
    monitor = Monitor(started_at=START, version="1", simulated=True)
    monitor.accept(SourceUp(at=START, source="log"))
    monitor.accept(SourceUp(at=START, source="loads"))
    reader = LogReader(timezone.utc, START)
    story = scenario(name)
    service = simulation(story, 1, START, outside=Watcher(monitor))
    for number, (at, line) in enumerate(service.play(acts(story)), 1):
        if at > START + LOAD_SECONDS + seconds:
            break
        for record in reader.read(line.encode(), at, number):
            monitor.accept(record)
    monitor.at(START + LOAD_SECONDS + seconds)
    return monitor


def differences(monitor: Monitor) -> list[str]:
    return [event.text for event in monitor.history().events if "moments" in event.text]


def test_a_story_where_log_and_moments_agree() -> None:
    monitor = watched("steady")
    assert differences(monitor) == []
    assert monitor.at(START + LOAD_SECONDS + 300).now.provenance == "moments"


def test_a_story_where_they_differ() -> None:
    told = differences(watched("two-witnesses"))
    assert len(told) == 1
    assert "accept length" in told[0]


def test_moments_are_refreshed_every_fifteen_steps_and_skip_what_follows_a_break() -> None:
    steps: list[Step] = []
    story = scenario("steady")
    service = simulation(story, 3, START, observe=steps.append)
    for at, _ in service.play(acts(story)):
        if at > START + LOAD_SECONDS + 60:
            break
    (load,) = service.loads()
    counted = steps[: len(steps) // 15 * 15]
    contiguous = [
        step for before, step in pairwise(counted) if step.at - before.at == pytest.approx(step.seconds, abs=1e-6)
    ]
    assert len(contiguous) < len(counted)
    assert load.moments[0] == len(contiguous)
    assert load.moments[5] == sum(step.committed for step in contiguous)
    assert load.moments[2] / len(contiguous) == pytest.approx(
        1e6 * fmean(step.seconds for step in contiguous), rel=1e-6
    )

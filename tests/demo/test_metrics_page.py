"""The simulated /metrics page counts what the engine did, and ddwatch reads it as it reads a real one."""

import re
from itertools import islice
from pathlib import Path

import httpx
import pytest
from ddwatch_sidecar.sources.metrics_page import read_page

from ddwatch.core.engine import RankMetrics
from ddwatch.demo import answers
from ddwatch.demo.engine import Simulation, Step
from ddwatch.demo.scenarios import acts, scenario, simulation
from tests.fakes.simulated import simulated

START = 1_780_000_000.0
GOLDEN = Path(__file__).parents[1] / "golden"
RANKS = GOLDEN / "metrics_pages" / "0.5.23.prom"
"""What the collector of a DP rank prints."""
WHOLE = GOLDEN / "real_sglang" / "ngram-metrics.txt"
"""A captured page of a server with one rank."""


def played(name: str, lines: int, steps: list[Step]) -> Simulation:
    story = scenario(name)
    service = simulation(story, 3, START, observe=steps.append)
    for _ in islice(service.play(acts(story)), lines):
        pass
    return service


def page_of(service: Simulation) -> tuple[RankMetrics, ...]:
    return read_page(answers.metrics(service.loads(), service.arguments).encode(), 0.0).ranks


def test_it_counts_every_token_and_every_pass() -> None:
    steps: list[Step] = []
    service = played("steady", 400, steps)
    (rank,) = page_of(service)
    assert rank.dp_rank is None, "a lone rank has no label, as in SGLang"
    assert rank.decode_tokens == sum(step.committed for step in steps)
    assert (rank.graph_passes, rank.plain_passes) == (len(steps), 0.0)
    assert rank.prefill_tokens == service.loads()[0].computed_tokens
    assert rank.total_context_tokens == pytest.approx(
        steps[-1].total_context_tokens + steps[-1].committed, abs=2 * steps[-1].committed + 2000
    )


def test_requests_that_are_sent_back_are_counted_as_the_log_tells_them() -> None:
    story = scenario("retract")
    service = simulation(story, 3, START)
    told = 0
    for at, line in service.play(acts(story)):
        found = re.search(r"#retracted_reqs: (\d+)", line)
        told += int(found[1]) if found is not None else 0
        if told and at > START + 1200:
            break
    (rank,) = page_of(service)
    assert told > 0
    assert rank.retracted == told


def test_every_rank_has_its_series() -> None:
    steps: list[Step] = []
    service = played("dp", 1500, steps)
    ranks = page_of(service)
    assert [rank.dp_rank for rank in ranks] == list(range(8))
    for rank in ranks:
        mine = [step for step in steps if step.rank == rank.dp_rank]
        assert (rank.decode_tokens or 0.0) == sum(step.committed for step in mine)


def test_all_its_families_and_labels_are_those_of_a_real_page() -> None:
    def shapes(page: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, labels in re.findall(r"^(sglang:\w+)\{([^}]*)\}", page, re.MULTILINE):
            found[name] = set(re.findall(r"(\w+)=", labels))
        return found

    service = played("dp", 1500, [])
    simulated_page = shapes(answers.metrics(service.loads(), service.arguments))
    whole, ranks = shapes(WHOLE.read_text()), shapes(RANKS.read_text())
    assert simulated_page.keys() <= whole.keys() | ranks.keys() | {"sglang:num_retracted_requests_total"}
    for name, labels in simulated_page.items():
        assert labels == ranks.get(name, labels), name


def test_the_port_serves_it(tmp_path: Path) -> None:
    with simulated(tmp_path / "sglang.log", speed=20) as running:
        page = httpx.get(f"{running.url}/metrics", timeout=30, trust_env=False).content
    (rank,) = read_page(page, 0.0).ranks
    assert rank.running is not None

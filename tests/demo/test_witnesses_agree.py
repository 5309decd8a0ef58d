"""Log, load and page of a simulated service tell of one truth: where nothing is wrong, none of them says other."""

import json

import pytest
from ddwatch_sidecar.sources.metrics_page import read_page

from ddwatch.core.grammar import LogReader
from ddwatch.core.loads import read_loads
from ddwatch.core.monitor import Monitor
from ddwatch.demo import answers
from ddwatch.demo.engine import Simulation
from ddwatch.demo.requests import Request
from ddwatch.demo.scenarios import acts, scenario, simulation
from ddwatch.demo.stage import View

START = 1_700_000_000.0
LOAD_SECONDS, PAGE_SECONDS = 2.0, 5.0
HOURS = 0.35


class Watch:
    """Asks the service for its load and its page as a sidecar does, in simulated time."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._due = {"loads": START, "metrics": START}
        self._view = View(False, (), {})
        self.asked_for = 0

    def reach(self, simulation: Simulation) -> None:
        self._pass(simulation.at)
        self._view = View(simulation.serving, simulation.loads(), simulation.arguments)

    def idle(self, simulation: Simulation, until: float) -> float:
        self.reach(simulation)
        self._pass(until)
        return until

    def asked(self) -> list[Request]:
        return []

    def _pass(self, until: float) -> None:
        """Asks whatever is due before this moment; the service is as its last pass left it."""
        while (at := min(self._due.values())) <= until:
            for name, every in (("loads", LOAD_SECONDS), ("metrics", PAGE_SECONDS)):
                if self._due[name] == at:
                    self._due[name] += every
                    self._ask(name, at)

    def _ask(self, name: str, at: float) -> None:
        if not self._view.serving:
            return
        self.asked_for += 1
        if name == "loads":
            body = json.dumps(answers.loads(self._view.loads, at)).encode()
            self._monitor.accept(read_loads(body, at, name), name)
        else:
            page = answers.metrics(self._view.loads, self._view.arguments)
            self._monitor.accept(read_page(page.encode(), at), name)
        self._monitor.at(at)


@pytest.mark.parametrize("name", ["steady", "founding", "prefill", "retract", "dp"])
def test_witnesses_of_a_healthy_service_do_not_differ(name: str) -> None:
    monitor = Monitor(started_at=START)
    reader, watch = LogReader(None, START, b"key"), Watch(monitor)
    story, number = scenario(name), 0
    for at, lines in simulation(story, 1, START, outside=watch).play(acts(story), START + HOURS * 3600):
        for line in lines.split("\n"):
            number += 1
            for record in reader.read(line.encode(), at, number):
                monitor.accept(record)
    events = monitor.history().events

    assert number > 1000 and watch.asked_for > 300
    assert [event.text for event in events if event.kind == "source"] == []
    assert {point.state for point in monitor.history().points} >= {"data"}

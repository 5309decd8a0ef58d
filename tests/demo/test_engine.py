"""The simulation runs on whatever machine it is given."""

from datetime import timezone

import pytest

from ddwatch.demo.engine import Simulation, Step
from ddwatch.demo.log_writer import LogWriter
from ddwatch.demo.requests import Boot, Users


def test_steps_take_what_the_machine_needs() -> None:
    steps: list[Step] = []
    asked: list[tuple[int, float]] = []

    def truth(batch: int, total_context_tokens: float) -> float:
        asked.append((batch, total_context_tokens))
        return 0.5

    simulation = Simulation(LogWriter(timezone.utc), seed="another", start=0.0, truth=truth, observe=steps.append)
    lines = list(simulation.play([Boot(seconds=10.0), Users(seconds=60.0, count=2, prompt=(100, 100))]))

    assert len(steps) > 50 and lines
    assert asked == [(step.batch, step.total_context_tokens) for step in steps]
    assert [step.seconds for step in steps] == [pytest.approx(0.5, rel=0.2)] * len(steps)


@pytest.mark.parametrize("ranks", [1, 8])
def test_the_port_tells_the_same_arguments_as_the_log(ranks: int) -> None:
    writer = LogWriter(timezone.utc, dp=ranks)
    simulation = Simulation(writer, seed="dp", start=0.0)
    lines = [line for _, line in simulation.play([Boot(seconds=10.0, arguments={"max_running_requests": 7})])]
    (told,) = [line for line in lines if "server_args=" in line]
    assert told.endswith(f"server_args={dict(simulation.arguments)!r}")
    assert simulation.arguments["enable_dp_attention"] is (ranks > 1)
    assert simulation.arguments["max_running_requests"] == 7

"""What others are doing on a server, as its own pages tell it."""

import re
from typing import NamedTuple

from ddwatch.core.records import Loads

GAUGE = re.compile(rb"^sglang[:_](num_running_reqs|num_queue_reqs)(?:\{[^}\n]*\})? +([0-9.eE+-]+)", re.MULTILINE)


class Traffic(NamedTuple):
    """Requests of others."""

    running: int
    queued: int

    @property
    def busy(self) -> bool:
        """Whether there are any."""
        return self.running + self.queued > 0

    def words(self) -> str:
        """For the operator."""
        return f"{self.running} running, {self.queued} waiting"


def traffic_of(loads: Loads) -> Traffic:
    """What runs and waits over all ranks."""
    return Traffic(sum(rank.running or 0 for rank in loads.ranks), sum(rank.queued or 0 for rank in loads.ranks))


def traffic_of_metrics(page: bytes) -> Traffic | None:
    """The same from the Prometheus page; None where it has no such gauges."""
    sums = {b"num_running_reqs": 0.0, b"num_queue_reqs": 0.0}
    seen = False
    for name, value in GAUGE.findall(page):
        try:
            sums[name] += float(value)
        except ValueError:
            continue
        seen = seen or name == b"num_running_reqs"
    return Traffic(round(sums[b"num_running_reqs"]), round(sums[b"num_queue_reqs"])) if seen else None

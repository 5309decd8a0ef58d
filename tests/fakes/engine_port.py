"""The simulated service without a process, a socket or a clock of its own: requests are served in simulated time."""

import json
import threading
from collections.abc import Callable
from random import Random

import httpx

from ddwatch.demo import answers
from ddwatch.demo.answers import Progress
from ddwatch.demo.asking import PrefixCache, read_generate
from ddwatch.demo.engine import Simulation, Step
from ddwatch.demo.requests import Request
from ddwatch.demo.scenarios import acts, scenario, simulation

START = 1_780_000_000.0


class EnginePort(httpx.BaseTransport):
    """Serves one request after another; between requests no time passes.

    With `batch` above 1 so many requests, from as many threads, are taken in at one instant.
    """

    def __init__(self, name: str = "server", seed: int = 1, observe: Callable[[Step], None] | None = None) -> None:
        self._asked: list[Request] = []
        self.batch = 1
        self.counts_steps = True
        """Whether answers say how many steps they took."""
        self._together: list[Progress] = []
        self._met = threading.Condition()
        self._own = threading.local()
        self._cache = PrefixCache()
        self._names = Random(seed)
        story = scenario(name)
        self.service = simulation(story, seed, START, observe=observe, outside=self)
        self._lines = self.service.play(acts(story))
        self.requests = 0
        self.before: Callable[[int], httpx.Response | None] = lambda number: None
        """Called with the number of each request; what it gives is the answer."""
        while not self.service.serving:
            next(self._lines)
        for at, _ in self._lines:
            if at > self.service.at - 1 and not self._asked and self._idle:
                break

    _idle = False

    def now(self) -> float:
        """The clock to measure with; behind an answer it is the time of that answer."""
        finished: float | None = getattr(self._own, "finished", None)
        self._own.finished = None
        return self.service.at if finished is None else finished

    # What the simulation asks.

    def reach(self, simulation: Simulation) -> None:
        self._idle = False

    def idle(self, simulation: Simulation, until: float) -> float:
        self._idle = True
        return min(until, simulation.at + 0.001)

    def asked(self) -> list[Request]:
        found, self._asked = self._asked, []
        return found

    # What a client asks.

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        given = self.before(self.requests)
        if given is not None:
            return given
        path = request.url.path
        if path == "/generate":
            return self._generate(request)
        pages = {
            "/v1/loads": lambda: answers.loads(self.service.loads(), self.now()),
            "/server_info": lambda: answers.server_info(self.service.arguments, self.service.loads()),
            "/v1/models": lambda: answers.models(self.service.arguments, self.now()),
        }
        if path not in pages:
            return httpx.Response(404)
        return httpx.Response(200, content=json.dumps(pages[path]()).encode())

    def _generate(self, request: httpx.Request) -> httpx.Response:
        asked = read_generate(json.loads(request.content), 262144)
        with self._met:
            cached = self._cache.cached(asked.prompt)
            progress = Progress("id", asked, cached, self.service.at)
            self._asked.append(
                Request(
                    prompt_tokens=len(asked.prompt),
                    cached_tokens=cached,
                    completion_tokens=asked.completion_tokens,
                    text=asked.text,
                    user=0,
                    port=0,
                    told=progress.hear,
                )
            )
            self._together.append(progress)
            if len(self._together) < self.batch:
                assert self._met.wait_for(lambda: progress.finished, timeout=30)
            else:
                together, self._together = self._together, []
                while not all(one.finished for one in together):
                    next(self._lines)
                self._met.notify_all()
        self._own.finished = progress.last
        meta = progress.meta()
        if not self.counts_steps:
            meta = {name: value for name, value in meta.items() if not name.startswith("spec_")}
        return httpx.Response(200, json={"text": "", "meta_info": meta})

"""SGLang's HTTP port for tests: a real HTTP server on loopback whose steps a test runs by hand."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web


class SglangPort:
    """Adds up decode moments as the scheduler does and answers with them."""

    def __init__(self, arguments: dict[str, Any] | None = None, key: str | None = None) -> None:
        self.arguments: dict[str, Any] = {
            "model_path": "moonshotai/Kimi-K2.6",
            "speculative_algorithm": "DDTREE",
            "tp_size": 8,
            "api_key": "sk-secret",
            **(arguments or {}),
        }
        self.key = key
        self.running = 0
        self.queued = 0
        self.used_tokens = 0
        self.metrics = False
        """Whether it runs with --enable-metrics."""
        self.asked: list[str] = []
        self.url = ""
        self._sums = [0.0] * 6

    def run(self, steps: int, seconds: float, accept: float = 2.9, batch: int = 1) -> None:
        """Runs equal steps; the load stands as if they still ran."""
        micros = seconds * 1e6
        each = (1.0, batch, micros, batch**2, batch * micros, batch * accept)
        self._sums = [total + steps * value for total, value in zip(self._sums, each, strict=True)]
        self.running = batch

    def restart(self) -> None:
        """Forgets the sums, as a new process does."""
        self._sums = [0.0] * 6

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answers one request."""
        self.asked.append(request.path_qs)
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.Response(status=401)
        if request.path == "/v1/loads":
            load = {
                "dp_rank": 0,
                "num_running_reqs": self.running,
                "num_waiting_reqs": self.queued,
                "num_used_tokens": self.used_tokens,
                "max_total_num_tokens": 500_000,
                "decode_moments": self._sums,
            }
            return web.json_response({"version": "0.5.23", "loads": [load]})
        if request.path == "/server_info":
            return web.Response(text=json.dumps({"version": "0.5.23", **self.arguments}))
        if request.path == "/metrics" and self.metrics:
            return web.Response(text=self._page())
        return web.Response(status=404)

    def _page(self) -> str:
        labels = 'engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"'
        rows = [
            f"sglang:num_running_reqs{{{labels}}} {self.running}",
            f"sglang:num_queue_reqs{{{labels}}} {self.queued}",
            f"sglang:token_usage{{{labels}}} {self.used_tokens / 500_000}",
            f"sglang:decode_sum_seq_lens{{{labels}}} {self.used_tokens}",
        ]
        if self._sums[0]:
            decoded = f'engine_type="unified",mode="decode",{labels.partition(",")[2]}'
            passes = f'engine_type="unified",mode="decode_cuda_graph",{labels.partition(",")[2]}'
            rows.append(f"sglang:realtime_tokens_total{{{decoded}}} {self._sums[5]}")
            rows.append(f"sglang:cuda_graph_passes_total{{{passes}}} {self._sums[0]}")
        return "\n".join(rows) + "\n"


@contextmanager
def sglang_port(port: SglangPort) -> Iterator[SglangPort]:
    """Serves a port from a thread of its own until the block ends."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    runners: list[web.AppRunner] = []

    async def begin() -> None:
        app = web.Application()
        app.router.add_get("/{tail:.*}", port.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, number = runner.addresses[0][:2]
        port.url = f"http://{host}:{number}"
        runners.append(runner)
        ready.set()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(begin())
        loop.run_forever()
        for runner in runners:
            loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(10), "the port did not open"
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)

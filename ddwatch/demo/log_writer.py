"""The words of the simulated service: log lines exactly as SGLang 0.5.23 with a DDTree fork prints them.

Formats are those of the captured logs of a real 0.5.23 server; the DDTree lines are those of public forks.
Every function returns lines without their newline.
"""

import json
from collections.abc import Mapping
from datetime import datetime, tzinfo
from pathlib import Path

from ddwatch.demo.physics import BLOCK_SIZE, GRAPH_SIZES, TREE_BUDGET
from ddwatch.demo.requests import Request

ARGUMENTS_FILE = Path(__file__).with_name("server_arguments.json")
"""All server arguments of a 0.5.23 server, set for Kimi K2.6 with DDTREE on eight GPUs."""

ArgumentValue = str | int | float | bool | None
SHARDS = 64
"""Checkpoint shards of the simulated model."""


def usual_arguments() -> dict[str, object]:
    """The server arguments that every simulated start shares."""
    arguments: dict[str, object] = json.loads(ARGUMENTS_FILE.read_text(encoding="utf-8"))
    return arguments


def bar(title: str, done: int, total: int, elapsed: float) -> str:
    """One state of a checkpoint progress bar."""
    left = elapsed * (total - done) / done if done else None
    pace = f"{elapsed / done:5.2f}s/it" if done else "?it/s"
    times = f"{clock(elapsed)}<{clock(left) if left is not None else '?'}"
    return f"{title}: {100 * done // total:3d}% Completed | {done}/{total} [{times}, {pace}]"


def clock(seconds: float) -> str:
    """Minutes and seconds as a progress bar prints them."""
    whole = round(seconds)
    return f"{whole // 60:02d}:{whole % 60:02d}"


class LogWriter:
    """Puts the stamp and the rank in front of each message.

    `zone` is the host's: SGLang stamps in local time with a resolution of one second.
    """

    def __init__(self, zone: tzinfo | None, *, tp: int = 8, dp: int = 1, port: int = 30000) -> None:
        self._zone = zone
        self._tp = tp
        self._dp = dp
        self._port = port
        self._second: int | None = None
        self._stamp = ""

    def stamp(self, at: float) -> str:
        """`2026-05-01 12:00:00` in the zone of the host."""
        second = int(at)
        if second != self._second:
            self._second = second
            self._stamp = datetime.fromtimestamp(second, self._zone).strftime("%Y-%m-%d %H:%M:%S")
        return self._stamp

    def plain(self, at: float, message: str) -> str:
        """A line of the main process: no rank."""
        return f"[{self.stamp(at)}] {message}"

    def ranked(self, at: float, rank: int, message: str) -> str:
        """A line of a scheduler; with data parallelism its first tensor-parallel rank speaks for each rank."""
        tp = rank * (self._tp // self._dp)
        name = f"DP{rank} TP{tp}" if self._dp > 1 else f"TP{tp}"
        return f"[{self.stamp(at)} {name}] {message}"

    def worker(self, at: float, tp: int, message: str) -> str:
        """A line that every tensor-parallel worker prints during the start."""
        name = f"DP{tp * self._dp // self._tp} TP{tp}" if self._dp > 1 else f"TP{tp}"
        return f"[{self.stamp(at)} {name}] {message}"

    def decode(
        self,
        at: float,
        rank: int,
        *,
        running: int,
        tokens: int,
        usage: float,
        accept_length: float,
        throughput: float,
        queued: int,
    ) -> str:
        """A `Decode batch` line; the accept rate is drafts accepted over nodes drafted."""
        rate = (accept_length - 1) / TREE_BUDGET
        graph = running <= GRAPH_SIZES[-1]
        return self.ranked(
            at,
            rank,
            f"Decode batch, #running-req: {running}, #token: {tokens}, token usage: {usage:.2f}, "
            f"accept len: {accept_length:.2f}, accept rate: {rate:.2f}, cuda graph: {graph}, "
            f"gen throughput (token/s): {throughput:.2f}, #queue-req: {queued}",
        )

    def prefill(
        self,
        at: float,
        rank: int,
        *,
        requests: int,
        new_tokens: int,
        cached: int,
        usage: float,
        running: int,
        queued: int,
        pending: int,
        throughput: float,
    ) -> str:
        """A `Prefill batch` line; its throughput is this batch's tokens over the time since the previous one."""
        return self.ranked(
            at,
            rank,
            f"Prefill batch, #new-seq: {requests}, #new-token: {new_tokens}, #cached-token: {cached}, "
            f"token usage: {usage:.2f}, #running-req: {running}, #queue-req: {queued}, "
            f"#pending-token: {pending}, cuda graph: False, input throughput (token/s): {throughput:.2f}",
        )

    def retraction(self, at: float, rank: int, *, requests: int, gained: int, before: float, after: float) -> str:
        """The KV pool ran full and requests go back to the queue."""
        return self.ranked(
            at,
            rank,
            f"KV cache pool is full. Retract requests. #retracted_reqs: {requests}, "
            f"#new_tokens_gained: {gained}, #new_token_ratio: {before:.4f} -> {after:.4f}",
        )

    def access(self, at: float, client: str, request: str, status: str = "200 OK") -> str:
        """A uvicorn access line."""
        return self.plain(at, f'INFO:     {client} - "{request} HTTP/1.1" {status}')

    def finished(self, at: float, request: Request) -> str:
        """What `--log-requests` prints of a request that is over; at its lowest level, so without any text."""
        steps = sum(request.drafts)
        meta = {
            "id": f"{request.port:032x}",
            "finish_reason": {"type": "stop"},
            "prompt_tokens": request.prompt_tokens,
            "completion_tokens": request.output,
            "cached_tokens": request.cached_tokens,
            "e2e_latency": at - request.asked_at,
            "spec_accept_length": request.output / steps if steps else 1.0,
            "spec_verify_ct": steps,
            "spec_correct_drafts_histogram": request.drafts,
            "first_token_latency": request.first_token_at - request.asked_at,
            "decode_throughput": (request.output - 1) / (at - request.first_token_at),
        }
        return self.plain(
            at, f"Finish: obj=GenerateReqInput(rid='{meta['id']}', stream=True), out={{'meta_info': {meta}}}"
        )

    def first_verify(self, at: float, rank: int, drafts: list[int]) -> str:
        """What a DDTree worker prints once, after its first verify: drafts accepted, without the bonus token."""
        return self.ranked(at, rank, f"DDTREE verify completed. num_correct_drafts_per_req={drafts}")

    def arguments(self, changes: Mapping[str, object]) -> dict[str, object]:
        """All arguments of a server that is started with these changes, as its log and its port both tell them."""
        return {
            **usual_arguments(),
            **{"dp_size": self._dp, "enable_dp_attention": self._dp > 1, "port": self._port},
            **changes,
        }

    def boot(self, at: float, seconds: float, pool: int, changes: dict[str, ArgumentValue]) -> list[tuple[float, str]]:
        """The lines from `server_args` to the listening server, spread over `seconds` of loading."""
        arguments = self.arguments(changes)
        share = pool // self._dp
        begin, end = at + 0.06 * seconds, at + 0.80 * seconds
        graphs, captured = at + 0.84 * seconds, at + 0.95 * seconds
        lines: list[tuple[float, str]] = [
            (at, self.plain(at, f"server_args={arguments!r}")),
            (at, self.plain(at, "Using default HuggingFace chat template with detected content format: string")),
        ]

        def everywhere(moment: float, message: str) -> None:
            lines.extend((moment, self.worker(moment, tp, message)) for tp in range(self._tp))

        everywhere(at + 0.03 * seconds, "Init torch distributed begin.")
        everywhere(begin, "Init torch distributed ends. elapsed=4.07 s, mem usage=1.21 GB")
        everywhere(begin, "Load weight begin. avail mem=93.37 GB")
        steps = [SHARDS * part // 8 for part in range(9)]
        states = [bar("Loading safetensors checkpoint shards", n, SHARDS, (end - begin) * n / SHARDS) for n in steps]
        lines.append((end, "\r".join(states)))
        everywhere(
            end,
            f"Load weight end. elapsed={end - begin:.2f} s, type=KimiK25ForConditionalGeneration, "
            "avail mem=23.02 GB, mem usage=70.35 GB.",
        )
        everywhere(end, f"KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: {share}, KV size: 14.86 GB")
        everywhere(end, "Memory pool end. avail mem=7.91 GB")
        everywhere(graphs, "Capture cuda graph begin. This can take up to several minutes. avail mem=7.88 GB")
        lines.append((graphs, self.worker(graphs, 0, f"Capture cuda graph bs {list(GRAPH_SIZES)}")))
        lines.append((captured, self._capturing(captured - graphs)))
        everywhere(
            captured,
            f"Capture cuda graph end. Time elapsed: {captured - graphs:.2f} s. mem usage=1.93 GB. avail mem=5.95 GB.",
        )
        ready = at + 0.97 * seconds
        lines += [
            (ready, self.worker(ready, 0, self._worker_line())),
            (
                ready,
                self.worker(
                    ready,
                    0,
                    f"max_total_num_tokens={share}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
                    f"max_running_requests={arguments['max_running_requests']}, context_len=262144, "
                    "available_gpu_mem=5.95 GB",
                ),
            ),
            (ready, self.plain(ready, "INFO:     Started server process [4242]")),
            (ready, self.plain(ready, "INFO:     Waiting for application startup.")),
            (ready, self.plain(ready, "INFO:     Application startup complete.")),
            (
                ready,
                self.plain(ready, f"INFO:     Uvicorn running on http://127.0.0.1:{self._port} (Press CTRL+C to quit)"),
            ),
        ]
        return lines

    def _worker_line(self) -> str:
        nodes = TREE_BUDGET + 1
        return f"Initialized DDTree worker. block_size={BLOCK_SIZE}, tree_budget={TREE_BUDGET}, max_tree_nodes={nodes}"

    def _capturing(self, elapsed: float) -> str:
        """The progress bar of the graph capture, all its states on one physical line."""
        total = len(GRAPH_SIZES)
        states = []
        for done, size in enumerate((*reversed(GRAPH_SIZES), GRAPH_SIZES[0])):
            blocks = "\u2588" * (10 * done // total)
            pace = f"{elapsed / done:5.2f}s/it" if done else "?it/s"
            states.append(
                f"Capturing batches (bs={size} avail_mem=6.21 GB): {100 * done // total:3d}%|{blocks:<10}| "
                f"{done}/{total} [{clock(elapsed * done / total)}<{clock(elapsed * (1 - done / total))}, {pace}]"
            )
        return "\r".join(states)

    def ready(self, at: float) -> str:
        """The server takes requests."""
        return self.plain(at, "The server is fired up and ready to roll!")

    def crash(self, at: float, tp: int, reason: str) -> list[tuple[float, str]]:
        """What the engine prints when one of its ranks dies of an exception: a traceback, then its parent's line."""
        event_loop = "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py"
        traceback = (
            "Scheduler hit an exception: Traceback (most recent call last):\n"
            f'  File "{event_loop}", line 4312, in run_scheduler_process\n'
            "    scheduler.event_loop_overlap()\n"
            f"{reason}\n"
        )
        words = "Received sigquit from a child process. It usually means the child failed."
        return [(at, self.worker(at, tp, traceback)), (at + 0.05, self.plain(at + 0.05, words))]

    def shutdown(self, at: float) -> list[tuple[float, str]]:
        """What the server prints when it is asked to leave."""
        return [
            (at, self.plain(at, "SIGTERM received. signum=None frame=None. Draining requests and shutting down...")),
            (at + 0.2, self.plain(at + 0.2, "Gracefully exiting... Remaining number of requests 0.")),
            (at + 0.4, self.plain(at + 0.4, "INFO:     Shutting down")),
            (at + 0.5, self.plain(at + 0.5, "INFO:     Waiting for application shutdown.")),
            (at + 0.5, self.plain(at + 0.5, "INFO:     Application shutdown complete.")),
            (at + 0.6, self.plain(at + 0.6, "INFO:     Finished server process [4242]")),
        ]

"""The documents that the simulated port answers with, in the shapes of a captured SGLang 0.5.23."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ddwatch.demo.asking import Asked, example
from ddwatch.demo.physics import BLOCK_SIZE, TREE_BUDGET
from ddwatch.demo.rank import RankLoad

VERSION = "0.5.23"
MODEL_NAME = "kimi-k2.6"
WORDS = ("simulated", "words", "that", "say", "nothing", "and", "stand", "for", "what", "a", "model", "would", "write")


def loads(ranks: Sequence[RankLoad], now: float) -> dict[str, Any]:
    """GET /v1/loads?include=all."""
    return {
        "timestamp": datetime.fromtimestamp(now, timezone.utc).isoformat(),
        "version": VERSION,
        "accelerator": "cuda",
        "num_accelerators": 8,
        "loads": [_load(rank, now) for rank in ranks],
    }


def _load(rank: RankLoad, now: float) -> dict[str, Any]:
    seen = rank.computed_tokens + rank.cached_tokens
    accept = rank.accept_length
    return {
        "timestamp": now,
        "dp_rank": rank.number,
        "num_running_reqs": rank.running,
        "num_waiting_reqs": rank.queued,
        "num_waiting_uncached_tokens": 0,
        "num_used_tokens": rank.used_tokens,
        "num_total_tokens": rank.used_tokens,
        "num_active_tokens": rank.used_tokens,
        "num_prealloc_ready_tokens": 0,
        "max_total_num_tokens": rank.pool_tokens,
        "max_running_requests": 32,
        "token_usage": round(rank.used_tokens / rank.pool_tokens, 4),
        "gen_throughput": round(rank.throughput, 2),
        "cache_hit_rate": round(rank.cached_tokens / seen, 4) if seen else 0.0,
        "utilization": 0.0,
        "total_prefill_uncached_tokens": rank.computed_tokens,
        "total_prefill_busy_us": round(rank.prefill_seconds * 1e6),
        "decode_moments": [float(value) for value in rank.moments],
        "memory": {"weight_gb": 70.35, "kv_cache_gb": 14.86, "graph_gb": 1.93, "token_capacity": rank.pool_tokens},
        "speculative": {
            "accept_length": accept if accept is not None else 0.0,
            "accept_rate": (accept - 1) / TREE_BUDGET if accept is not None else 0.0,
        },
        "queues": {"waiting": rank.queued, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
    }


def server_info(arguments: Mapping[str, object], ranks: Sequence[RankLoad]) -> dict[str, Any]:
    """GET /server_info: every argument, the version, and one state per rank."""
    states = [{"last_gen_throughput": rank.throughput, "token_capacity": rank.pool_tokens} for rank in ranks]
    pool = ranks[0].pool_tokens if ranks else 0
    return {**arguments, "max_total_num_tokens": pool, "internal_states": states, "version": VERSION}


def model_info(arguments: Mapping[str, object]) -> dict[str, Any]:
    """GET /model_info."""
    names = ("model_path", "served_model_name", "tokenizer_path", "reasoning_parser", "tool_call_parser", "load_format")
    return {**{name: arguments.get(name) for name in names}, "is_generation": True, "weight_version": "default"}


def models(arguments: Mapping[str, object], now: float) -> dict[str, Any]:
    """GET /v1/models."""
    name = arguments.get("served_model_name") or arguments.get("model_path") or MODEL_NAME
    card = {"id": name, "object": "model", "created": int(now), "owned_by": "sglang", "root": name, "parent": None}
    return {"object": "list", "data": [{**card, "max_model_len": arguments.get("context_length")}]}


Value = float | int | None
GAUGES: tuple[tuple[str, Callable[[RankLoad], Value]], ...] = (
    ("num_running_reqs", lambda rank: rank.running),
    ("num_queue_reqs", lambda rank: rank.queued),
    ("num_used_tokens", lambda rank: rank.used_tokens),
    ("token_usage", lambda rank: round(rank.used_tokens / rank.pool_tokens, 4)),
    ("max_total_num_tokens", lambda rank: rank.pool_tokens),
    ("gen_throughput", lambda rank: round(rank.throughput, 2)),
    ("spec_accept_length", lambda rank: rank.accept_length or 0.0),
    ("decode_sum_seq_lens", lambda rank: rank.decode_context),
)
COUNTERS: tuple[tuple[str, str | None, Callable[[RankLoad], Value]], ...] = (
    ("realtime_tokens_total", "decode", lambda rank: rank.decoded_tokens),
    ("realtime_tokens_total", "prefill_compute", lambda rank: rank.computed_tokens),
    ("realtime_tokens_total", "prefill_cache", lambda rank: rank.cached_tokens),
    ("cuda_graph_passes_total", "decode_cuda_graph", lambda rank: rank.graph_passes),
    ("cuda_graph_passes_total", "decode_none", lambda rank: rank.plain_passes),
    ("num_retracted_requests_total", None, lambda rank: rank.retracted),
)
"""By family and, where it has one, its label `mode`; a counter is not on the page before its first count."""


def metrics(ranks: Sequence[RankLoad], arguments: Mapping[str, object]) -> str:
    """GET /metrics: what of SGLang's page says what runs."""
    name = arguments.get("served_model_name") or MODEL_NAME
    lines: list[str] = []
    headed: set[str] = set()

    def head(metric: str, kind: str) -> None:
        if metric not in headed:
            headed.add(metric)
            lines.extend((f"# HELP sglang:{metric} Simulated.", f"# TYPE sglang:{metric} {kind}"))

    def put(metric: str, rank: RankLoad, mode: str | None, value: float) -> None:
        dp = f'dp_rank="{rank.number}",' if len(ranks) > 1 else ""
        way = f'mode="{mode}",' if mode is not None else ""
        labels = f'{dp}engine_type="unified",{way}model_name="{name}",moe_ep_rank="0",pp_rank="0",tp_rank="0"'
        lines.append(f"sglang:{metric}{{{labels}}} {float(value)}")

    for metric, value in GAUGES:
        head(metric, "gauge")
        for rank in ranks:
            put(metric, rank, None, value(rank) or 0.0)
    for metric, mode, value in COUNTERS:
        for rank in ranks:
            if count := value(rank):
                head(metric, "counter")
                put(metric, rank, mode, count)
    return "\n".join(lines) + "\n"


class Progress:
    """One request on its way: what its answer can say so far."""

    def __init__(self, identity: str, asked: Asked, cached: int, received: float) -> None:
        self.identity = identity
        self.asked = asked
        self.cached = cached
        self.received = received
        self.first: float | None = None
        self.last = received
        self.output = 0
        self.histogram = [0] * BLOCK_SIZE

    def hear(self, at: float, committed: int | None, output: int) -> None:
        """A pass of it has ended."""
        if self.first is None:
            self.first = at
        self.last, self.output = at, output
        if committed is not None:
            self.histogram[committed - 1] += 1

    @property
    def finished(self) -> bool:
        """Whether the answer is whole."""
        return self.output >= self.asked.completion_tokens

    def text(self, begin: int = 0) -> str:
        """The words of the answer from token `begin` on."""
        return "".join(f" {WORDS[i % len(WORDS)]}" for i in range(begin, self.output))

    def meta(self) -> dict[str, Any]:
        """`meta_info` of /generate; the speculative figures come with the end, as in SGLang."""
        told: dict[str, Any] = {
            "id": self.identity,
            "finish_reason": None,
            "prompt_tokens": len(self.asked.prompt),
            "weight_version": "default",
            "num_retractions": 0,
            "reasoning_tokens": 0,
            "completion_tokens": self.output,
            "cached_tokens": self.cached,
            "dp_rank": None,
        }
        if not self.finished:
            return told
        length = self.asked.completion_tokens
        told["finish_reason"] = (
            {"type": "stop", "matched": 163586} if self.asked.ended else {"type": "length", "length": length}
        )
        told["e2e_latency"] = self.last - self.received
        steps = sum(self.histogram)
        if steps:
            drafts = sum(k * count for k, count in enumerate(self.histogram))
            told |= {
                "spec_accept_rate": drafts / (steps * TREE_BUDGET),
                "spec_accept_length": self.output / steps,
                "spec_num_correct_drafts": drafts,
                "spec_num_proposed_drafts": steps * TREE_BUDGET,
                "spec_verify_ct": steps,
                "spec_correct_drafts_histogram": self._trimmed(),
            }
        return told

    def _trimmed(self) -> list[int]:
        last = max(index for index, count in enumerate(self.histogram) if count)
        return self.histogram[: last + 1]

    def usage(self, parsed: bool) -> dict[str, Any]:
        """`usage` of a chat answer."""
        prompt = len(self.asked.prompt)
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + self.output,
            "completion_tokens": self.output,
            "prompt_tokens_details": None,
            "reasoning_tokens": min(self.output, self.asked.thinking_tokens) if parsed else 0,
        }


class ChatAnswer:
    """Splits the tokens of a chat answer as the parsers of the server would, if it has them."""

    def __init__(self, progress: Progress, arguments: Mapping[str, object], created: int) -> None:
        self.progress = progress
        self.reasoning = bool(arguments.get("reasoning_parser"))
        self.tools = bool(arguments.get("tool_call_parser"))
        self.head = {
            "id": progress.identity,
            "created": created,
            "model": arguments.get("served_model_name") or MODEL_NAME,
        }
        self._said = 0

    def pieces(self) -> Iterator[dict[str, Any]]:
        """What the newest tokens add, as deltas."""
        progress, thinking = self.progress, self.progress.asked.thinking_tokens
        begin, end = self._said, progress.output
        self._said = end
        words = [f" {WORDS[i % len(WORDS)]}" for i in range(begin, end)]
        cut = min(max(thinking - begin, 0), len(words))
        thought, spoken = "".join(words[:cut]), "".join(words[cut:])
        if thought:
            opening = "<think>" if begin == 0 and not self.reasoning else ""
            yield {"reasoning_content": thought} if self.reasoning else {"content": opening + thought}
        if begin < thinking <= end and not self.reasoning:
            yield {"content": "</think>"}
        if progress.asked.tool is None:
            if spoken:
                yield {"content": spoken}
        elif progress.finished and progress.asked.ended:
            yield self._call(progress.asked.tool)

    def _call(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        parameters = tool.get("parameters")
        filled = json.dumps(example(parameters if isinstance(parameters, Mapping) else {"type": "object"}))
        name = str(tool.get("name", "tool"))
        if not self.tools:
            return {
                "content": f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{filled}<|tool_call_end|>"
            }
        call = {"id": f"functions.{name}:0", "index": 0, "type": "function"}
        return {"tool_calls": [{**call, "function": {"name": name, "arguments": filled}}]}

    @property
    def finish(self) -> str:
        """Why it ended."""
        asked = self.progress.asked
        if not asked.ended:
            return "length"
        return "tool_calls" if asked.tool is not None and self.tools else "stop"

    def chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        """One streamed chunk."""
        choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish, "matched_stop": None}
        return {**self.head, "object": "chat.completion.chunk", "choices": [choice]}

    def last_chunk(self) -> dict[str, Any]:
        """The chunk with the usage, sent when it was asked for."""
        usage = self.progress.usage(self.reasoning)
        return {**self.head, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    def whole(self) -> dict[str, Any]:
        """The answer in one document."""
        message: dict[str, Any] = {"role": "assistant", "content": "", "reasoning_content": None, "tool_calls": None}
        for piece in self.pieces():
            for name, value in piece.items():
                message[name] = value if message[name] in (None, "") else message[name] + value
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish, "matched_stop": None}
        usage = self.progress.usage(self.reasoning)
        return {**self.head, "object": "chat.completion", "choices": [choice], "usage": usage}

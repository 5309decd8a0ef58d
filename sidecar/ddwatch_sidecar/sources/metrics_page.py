"""Reads SGLang's /metrics page: the few families that ddwatch uses, one reading per DP rank, whatever the release."""

import math
import re
from collections.abc import Iterable, Mapping

from msgspec import convert
from prometheus_client.parser import text_string_to_metric_families

from ddwatch.core.engine import RANKS_AT_MOST, EngineMetrics, RankMetrics

SERIES_AT_MOST = 8192
"""Series of the families in use that one page may have."""
LINE_BYTES = 4096

GAUGES: Mapping[str, str] = {
    "num_running_reqs": "running",
    "num_queue_reqs": "queued",
    "token_usage": "token_usage",
    "decode_sum_seq_lens": "total_context_tokens",
    "spec_accept_length": "accept_length",
}
COUNTERS: Mapping[tuple[str, str | None], str] = {
    ("realtime_tokens_total", "decode"): "decode_tokens",
    ("realtime_tokens_total", "prefill_compute"): "prefill_tokens",
    ("cuda_graph_passes_total", "decode_cuda_graph"): "graph_passes",
    ("cuda_graph_passes_total", "decode_none"): "plain_passes",
    ("num_retracted_requests_total", None): "retracted",
}
"""By family and, where it has one, its label `mode`."""
WHOLE = ("running", "queued", "total_context_tokens")
FAMILIES = (*GAUGES, *dict.fromkeys(name for name, _ in COUNTERS))
WANTED = re.compile(rb"^sglang[:_](?:" + "|".join(FAMILIES).encode() + rb")[{ \t][^\n]*$", re.MULTILINE)
"""A line of these families, in either spelling of their names; parsing the whole page costs fifty times as much."""
ANY = re.compile(rb"^(?:# (?:HELP|TYPE) )?sglang[:_]", re.MULTILINE)
Place = tuple[int, int]
"""PP and TP rank: of several that report for one DP rank the first is read, because all of them say the same."""


class PageUnreadable(ValueError):
    """The page is not SGLang's; the message is one sentence."""


def read_page(body: bytes, at: float) -> EngineMetrics:
    """One reading of all DP ranks.

    Args:
        body: the page.
        at: when it was read, seconds since the epoch.

    Raises:
        PageUnreadable: it is not a Prometheus page, holds nothing of SGLang, or far too much.
    """
    if ANY.search(body) is None:
        raise PageUnreadable("/metrics holds nothing of SGLang; is this SGLang's port?")
    lines = [line for line in WANTED.findall(body) if len(line) <= LINE_BYTES]
    if len(lines) > SERIES_AT_MOST:
        raise PageUnreadable(f"/metrics has more than {SERIES_AT_MOST} series of the engine, which is not read")
    found: dict[int | None, dict[Place, dict[str, float]]] = {}
    text = b"\n".join(lines).decode("utf-8", "replace") + "\n"
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                field = _field(sample.name, sample.labels)
                if field is not None and math.isfinite(sample.value) and sample.value >= 0:
                    dp, place = _rank(sample.labels)
                    found.setdefault(dp, {}).setdefault(place, {})[field] = sample.value
    except (ValueError, KeyError, IndexError) as error:
        raise PageUnreadable("/metrics holds a line that is not Prometheus text; is this SGLang's port?") from error
    if len(found) > RANKS_AT_MOST:
        raise PageUnreadable(f"/metrics tells of more than {RANKS_AT_MOST} DP ranks, which is not read")
    return EngineMetrics(at=at, ranks=tuple(_reading(found)))


def _field(name: str, labels: Mapping[str, str]) -> str | None:
    if labels.get("priority"):
        # A part of the queue; the whole of it has a series of its own.
        return None
    short = name[len("sglang:") :]
    return GAUGES.get(short) or COUNTERS.get((short, labels.get("mode")))


def _rank(labels: Mapping[str, str]) -> tuple[int | None, Place]:
    dp = labels.get("dp_rank", "")
    return int(dp) if dp else None, (int(labels.get("pp_rank") or 0), int(labels.get("tp_rank") or 0))


def _reading(found: Mapping[int | None, Mapping[Place, Mapping[str, float]]]) -> Iterable[RankMetrics]:
    for dp in sorted(found, key=lambda rank: -1 if rank is None else rank):
        values = dict(found[dp][min(found[dp])])
        if values.get("accept_length", 1.0) < 1.0:
            # The gauge of a server without speculation, or before its first step.
            del values["accept_length"]
        if "graph_passes" in values or "plain_passes" in values:
            # A counter without its first count is not on the page; that of its pair says that both are kept.
            values = {"graph_passes": 0.0, "plain_passes": 0.0, **values}
        whole = {field: round(value) if field in WHOLE else value for field, value in values.items()}
        yield convert({"dp_rank": dp, **whole}, RankMetrics)

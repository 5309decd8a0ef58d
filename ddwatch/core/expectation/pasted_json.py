"""Reads pasted JSON: an OpenAI or SGLang answer with its usage, llama.cpp timings, a bench_serving result."""

from collections.abc import Iterator, Mapping

import msgspec

from ddwatch.core.expectation.pasted_text import Found, benchmark

LARGEST = 1e300
MOST_TABLES = 200
"""Nested objects that are looked at."""


def read_json(text: str) -> Found | None:
    """What the first object (or the last of several lines) says; None when the text is not JSON or says nothing."""
    documents = _documents(text)
    if not documents:
        return None
    tables = list(_tables(documents[-1]))
    found = next((one for table in tables if (one := _benchmark(table)) is not None), None)
    if found is None:
        found = _usage(tables)
    if found is not None and len(documents) > 1:
        found.missed.append(f"the {len(documents) - 1} JSON lines before the last")
    return found


def _documents(text: str) -> list[object]:
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, RecursionError, ValueError):
        pass
    lines: list[object] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            lines.append(msgspec.json.decode(line))
        except (msgspec.DecodeError, RecursionError, ValueError):
            return []
    return lines


def _tables(value: object) -> Iterator[Mapping[str, object]]:
    """All objects in a document, outer ones first, bounded."""
    waiting: list[object] = [value]
    seen = 0
    while waiting and seen < MOST_TABLES:
        item = waiting.pop(0)
        if isinstance(item, dict):
            seen += 1
            yield item
            waiting.extend(list(item.values())[:MOST_TABLES])
        elif isinstance(item, list):
            waiting.extend(item[-8:])


def _number(table: Mapping[str, object], *names: str) -> float | None:
    for name in names:
        value = table.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            # An integer may be longer than any float.
            return float(value) if abs(value) < LARGEST else LARGEST
    return None


def _benchmark(table: Mapping[str, object]) -> Found | None:
    rate = _number(table, "output_throughput")
    if rate is None or _number(table, "duration", "completed", "total_output_tokens") is None:
        return None
    return benchmark(
        rate=rate,
        completed=_number(table, "completed"),
        total_input=_number(table, "total_input_tokens"),
        total_output=_number(table, "total_output_tokens"),
        concurrency=_number(table, "concurrency"),
        accept=_number(table, "accept_length"),
        first_token_ms=_number(table, "mean_ttft_ms"),
        latency_ms=_number(table, "mean_e2e_latency_ms"),
    )


PROMPTS = ("prompt_tokens", "input_tokens", "prompt_n", "prompt_eval_count")
COMPLETIONS = ("completion_tokens", "output_tokens", "predicted_n", "eval_count")
RATES = ("tokens_per_second", "predicted_per_second", "generation_tps", "decode_throughput")
SECONDS = ("e2e_latency", "latency", "elapsed", "elapsed_seconds", "duration", "total_time", "seconds", "time")
FIRST = ("ttft", "time_to_first_token", "prefill_seconds")


def _usage(tables: list[Mapping[str, object]]) -> Found | None:
    found = Found(kind="usage-json", notes=[], missed=[])
    for table in tables:
        for name, keys in (
            ("prompt", PROMPTS),
            ("completion", COMPLETIONS),
            ("rate", RATES),
            ("seconds", SECONDS),
            ("prefill_seconds", FIRST),
            ("accept", ("spec_accept_length", "accept_length")),
        ):
            value = _number(table, *keys)
            if value is not None and getattr(found, name) is None:
                setattr(found, name, value)
        milliseconds = _number(table, "predicted_ms")
        if milliseconds is not None and found.seconds is None:
            found.seconds = milliseconds / 1e3
    if found.prompt is None and found.completion is None and found.rate is None:
        return None
    return found

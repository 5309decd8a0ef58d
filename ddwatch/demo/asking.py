"""What a request over the simulated port asks for: its tokens, its kind of text, and what the prefix cache holds."""

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from msgspec import Struct

from ddwatch.demo.physics import CODE, PREDICTABLE, REASONING, TextClass

TOKEN = re.compile(r"\w{1,6}|[^\w\s]")
"""A token of the simulated tokenizer: up to six characters of a word, or one sign."""
SIGNS = frozenset("(){}[]=;:<>+*/_|&")
KEPT_PREFIXES = 256
"""Prompts whose prefixes the simulated cache remembers."""
THINKING_SHARE = 0.45
"""Part of a chat answer that is thinking."""
TEMPLATE_TOKENS = 6
"""Tokens that the chat template adds to each message."""
ENDING = 24
"""Tokens at the end of a prompt that decide how it goes on."""
DEFAULT_TOKENS = 128
"""Completion tokens of /generate when nobody says how many."""


class BadRequest(ValueError):
    """The request cannot be served; the message is what the service says."""


class Asked(Struct, frozen=True, kw_only=True):
    """One request as the engine needs it, with what its answer needs."""

    prompt: tuple[str, ...]
    completion_tokens: int
    ended: bool
    """True when the text ends by itself; False when the limit cuts it."""
    text: TextClass
    stream: bool = False
    include_usage: bool = False
    thinking_tokens: int = 0
    tool: Mapping[str, Any] | None = None
    """The function that the answer calls."""


def tokens(text: str) -> tuple[str, ...]:
    """The simulated tokens of a text; never none."""
    return tuple(TOKEN.findall(text)) or (" ",)


def kind_of(prompt: Sequence[str]) -> TextClass:
    """The class of text that a prompt leads to by its end: numbers go on, code goes on, all else is thought about."""
    prompt = prompt[-ENDING:]
    count = len(prompt)
    if count >= 6 and sum(token.isdigit() for token in prompt) > 0.25 * count:
        return PREDICTABLE
    if count >= 6 and sum(token in SIGNS for token in prompt) > 0.12 * count:
        return CODE
    return REASONING


def _whole(body: Mapping[str, Any], names: Sequence[str], default: int) -> int:
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadRequest(f"{name} must be a positive integer")
        return value
    return default


def read_generate(body: Mapping[str, Any], limit: int) -> Asked:
    """A body of /generate; raises BadRequest."""
    if isinstance(body.get("input_ids"), list):
        prompt = tuple(str(one) for one in body["input_ids"]) or (" ",)
    elif isinstance(body.get("text"), str):
        prompt = tokens(body["text"])
    else:
        raise BadRequest("Either text or input_ids should be provided.")
    sampling = body.get("sampling_params") or {}
    if not isinstance(sampling, Mapping):
        raise BadRequest("sampling_params must be an object")
    wanted = _whole(sampling, ("max_new_tokens",), DEFAULT_TOKENS)
    natural = wanted if sampling.get("ignore_eos") else 60 + crc32(" ".join(prompt).encode()) % 200
    _check_length(len(prompt), min(wanted, natural), limit)
    return Asked(
        prompt=prompt,
        completion_tokens=min(wanted, natural),
        ended=natural < wanted,
        text=kind_of(prompt),
        stream=body.get("stream") is True,
    )


def read_chat(body: Mapping[str, Any], limit: int) -> Asked:
    """A body of /v1/chat/completions; raises BadRequest."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, Mapping) for one in messages):
        raise BadRequest("messages must be a list of messages, not empty")
    said = [one["content"] for one in messages if isinstance(one.get("content"), str)]
    prompt = tuple(token for text in said for token in (*tokens(text), *["<|im|>"] * TEMPLATE_TOKENS))
    prompt = prompt or ("<|im|>",) * TEMPLATE_TOKENS
    tools = body.get("tools")
    tool = tools[0].get("function") if isinstance(tools, list) and tools and isinstance(tools[0], Mapping) else None
    natural = 48 + crc32(" ".join(prompt).encode()) % 120 if tool is None else 64
    wanted = _whole(body, ("max_completion_tokens", "max_tokens"), natural + 1)
    if body.get("ignore_eos"):
        natural = wanted
    _check_length(len(prompt), min(wanted, natural), limit)
    options = body.get("stream_options")
    return Asked(
        prompt=prompt,
        completion_tokens=min(wanted, natural),
        ended=natural < wanted,
        text=kind_of(tokens(said[-1])) if said else REASONING,
        stream=body.get("stream") is True,
        include_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
        thinking_tokens=round(THINKING_SHARE * natural),
        tool=tool if isinstance(tool, Mapping) else None,
    )


def _check_length(prompt: int, completion: int, limit: int) -> None:
    if prompt + completion > limit:
        raise BadRequest(
            f"Requested token count exceeds the model's maximum context length of {limit} tokens. You requested a "
            f"total of {prompt + completion} tokens: {prompt} tokens from the input messages and {completion} tokens "
            "for the completion."
        )


class PrefixCache:
    """The newest prompts, and how far a new one begins like one of them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def cached(self, prompt: tuple[str, ...]) -> int:
        """Tokens at the head of this prompt that were computed before; the last one is always computed."""
        longest = 0
        for kept in self._kept:
            most = min(len(kept), len(prompt) - 1)
            if most > longest and kept[: longest + 1] == prompt[: longest + 1]:
                while longest < most and kept[longest] == prompt[longest]:
                    longest += 1
        self._kept[prompt] = None
        self._kept.move_to_end(prompt)
        if len(self._kept) > KEPT_PREFIXES:
            self._kept.popitem(last=False)
        return longest

    def clear(self) -> None:
        """A new process knows nothing."""
        self._kept.clear()


def example(schema: Mapping[str, Any]) -> Any:
    """A value that obeys the simple part of a JSON Schema: what a model would fill in."""
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties")
            known = properties if isinstance(properties, Mapping) else {}
            return {name: example(inner if isinstance(inner, Mapping) else {}) for name, inner in known.items()}
        case "array":
            return []
        case "integer" | "number":
            return 7
        case "boolean":
            return True
        case _:
            return "Oslo"

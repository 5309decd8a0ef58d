"""Parsers are judged by tokens and finish reasons, never by an empty content."""

import pytest

from ddwatch.probes.findings import Status
from ddwatch.probes.parsers import judge_reasoning, judge_tools
from ddwatch.probes.server import Said


def answer(
    *,
    tokens: int | None = 200,
    finish: str | None = "stop",
    content: bool = True,
    reasoning: bool = False,
    marks: tuple[str, ...] = (),
    calls: tuple[tuple[str, bool], ...] = (),
) -> Said:
    return Said(
        seconds=1.0,
        completion_tokens=tokens,
        finish=finish,
        has_content=content,
        has_reasoning=reasoning,
        marks=marks,
        calls=calls,
    )


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (answer(reasoning=True), "pass"),
        (answer(reasoning=True, content=False, finish="length", tokens=512), "pass"),
        (answer(content=False, tokens=0), "fail"),
        (answer(marks=("<think>",)), "fail"),
        (answer(reasoning=True, marks=("</think>",)), "fail"),
        (answer(), "warn"),
        (answer(tokens=None, reasoning=True, finish=None), "pass"),
    ],
)
def test_the_reasoning_parser(said: Said, status: Status) -> None:
    assert judge_reasoning("kimi_k2", said).status == status


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (answer(calls=(("read_temperature", True),), finish="tool_calls", content=False), "pass"),
        (answer(calls=(("read_temperature", False),), finish="tool_calls"), "fail"),
        (answer(marks=("<|tool_call",)), "fail"),
        (answer(finish="length", content=False, tokens=512), "unknown"),
        (answer(), "warn"),
    ],
)
def test_the_tool_parser(said: Said, status: Status) -> None:
    assert judge_tools("kimi_k2", said).status == status


def test_broken_parsers_are_worth_a_look_and_say_what_to_change() -> None:
    found = judge_tools("qwen25", answer(marks=("<|tool_call",)))
    assert found.verdict == "parser-broken"
    assert found.fix is not None
    assert "--tool-call-parser" in found.fix

"""Whether the reasoning parser and the tool parser do their work, judged by tokens and finish reasons.

An empty `content` proves nothing: a model that is still thinking when the limit comes has written hundreds of tokens.
"""

from collections.abc import Mapping
from typing import Any

from ddwatch.core.arguments import Scalar, is_unset
from ddwatch.probes.findings import Finding
from ddwatch.probes.server import Said, Server

QUESTION = "Is 221 a prime number? Think it through, then answer in one short sentence."
TOOL_QUESTION = "What is the temperature in Oslo right now? Use the tool, do not guess."
TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "read_temperature",
        "description": "Reads the present temperature in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city"}},
            "required": ["city"],
        },
    },
}


def parser_findings(server: Server, model: str, arguments: Mapping[str, Scalar], tokens: int) -> list[Finding]:
    """One finding per parser that is set; raises ProbeFailed when the server does not answer."""
    found = []
    reasoning, tools = arguments.get("reasoning_parser"), arguments.get("tool_call_parser")
    if not is_unset(reasoning):
        found.append(judge_reasoning(str(reasoning), server.chat(model, QUESTION, tokens)))
    if not is_unset(tools):
        found.append(judge_tools(str(tools), server.chat(model, TOOL_QUESTION, tokens, [TOOL])))
    return found


def _measured(said: Said) -> str:
    tokens = "– tokens" if said.completion_tokens is None else f"{said.completion_tokens} tokens"
    return f"{tokens}, finish {said.finish or '–'}"


def judge_reasoning(parser: str, said: Said) -> Finding:
    """Whether thinking arrived as `reasoning_content`."""
    name, measured, expected = "reasoning parser", _measured(said), "reasoning_content"
    if said.completion_tokens == 0:
        return Finding(
            name=name,
            status="fail",
            measured=measured,
            expected=expected,
            detail="the answer has no tokens at all",
            fix="look at the server's log for this request",
            verdict="stalled",
        )
    if said.marks:
        return Finding(
            name=name,
            status="fail",
            measured=measured,
            expected=expected,
            detail=f"{parser} leaves {said.marks[0]} in the content",
            fix=f"another --reasoning-parser than {parser} fits this model's template",
            verdict="parser-broken",
        )
    if said.has_reasoning:
        detail = "thinking is separated"
        if said.finish == "length" and not said.has_content:
            detail = "thinking is separated (it was still thinking at the limit)"
        return Finding(name=name, status="pass", measured=measured, expected=expected, detail=detail)
    return Finding(
        name=name,
        status="warn",
        measured=measured,
        expected=expected,
        detail="the answer came without thinking: the model did not think, or its thinking is lost",
        fix="ask something harder by hand and look for reasoning_content",
    )


def judge_tools(parser: str, said: Said) -> Finding:
    """Whether a tool call arrived as one, with arguments that are JSON."""
    name, measured, expected = "tool parser", _measured(said), "tool_calls"
    if said.calls:
        broken = [call for call, valid in said.calls if not valid]
        if broken:
            return Finding(
                name=name,
                status="fail",
                measured=measured,
                expected=expected,
                detail=f"the arguments of {broken[0]} are not a JSON object",
                fix=f"another --tool-call-parser than {parser} fits this model",
                verdict="parser-broken",
            )
        return Finding(
            name=name, status="pass", measured=measured, expected=expected, detail="the call's arguments are JSON"
        )
    if said.marks:
        return Finding(
            name=name,
            status="fail",
            measured=measured,
            expected=expected,
            detail=f"{parser} leaves {said.marks[0]} in the content",
            fix=f"another --tool-call-parser than {parser} fits this model",
            verdict="parser-broken",
        )
    if said.finish == "length":
        detail = "no call before the limit of tokens: it was still thinking"
        return Finding(name=name, status="unknown", measured=measured, expected=expected, detail=detail)
    return Finding(
        name=name,
        status="warn",
        measured=measured,
        expected=expected,
        detail="the model answered without calling the tool",
        fix="ask again by hand with tool_choice required",
    )

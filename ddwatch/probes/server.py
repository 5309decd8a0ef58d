"""A client for SGLang's port that asks, measures by usage counts, and turns every failure into one sentence."""

import json
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from ddwatch.core.arguments import Scalar, read_arguments
from ddwatch.core.loads import LoadsUnreadable, read_loads
from ddwatch.core.records import Loads
from ddwatch.probes.failures import CONNECT_SECONDS, DEFAULT_URL, ProbeFailed, failure
from ddwatch.probes.traffic import Traffic, traffic_of, traffic_of_metrics

ANSWER_SECONDS = 10.0
"""How long a page that computes nothing may take."""
BODY_BYTES = 16 * 1024 * 1024
CAUTIOUS_LENGTH = 4096
"""Longest request where the server does not say what it takes."""
INFO_PATHS = ("/server_info", "/get_server_info")


class Facts(Struct, frozen=True, kw_only=True):
    """What the server says of itself."""

    arguments: dict[str, Scalar]
    """Allow-listed, with values."""
    withheld: dict[str, str]
    """Digests of all others that are set."""
    version: str | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """One completed request, as usage counts and the client's clock tell it."""

    seconds: float
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    steps: int | None = None
    """Verify steps, where the server counts them."""
    drafts: tuple[int, ...] = ()
    """How many steps accepted 0, 1, 2 … drafts, where the server counts them."""
    finish: str | None = None


class Said(Struct, frozen=True, kw_only=True):
    """One chat answer, without its text: only what must be known of it."""

    seconds: float
    completion_tokens: int | None
    finish: str | None
    has_content: bool
    has_reasoning: bool
    marks: tuple[str, ...]
    """Markup of a thinking or tool block that was left in the content."""
    calls: tuple[tuple[str, bool], ...]
    """Name of each tool call and whether its arguments are a JSON object."""


MARKS = ("<think>", "</think>", "<|tool_call", "<tool_call>", "[TOOL_CALLS]", "<function=", "◁think▷", "<|channel|>")


def address(given: str) -> str:
    """The address without a path; raises ValueError with one sentence for what is none."""
    text = given if "//" in given else f"http://{given}"
    parts = urlsplit(text)
    try:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username is not None:
        shown = "".join(letter if letter.isprintable() else "?" for letter in given[:100])
        raise ValueError(f"{shown!r} is not an address; it should look like {DEFAULT_URL}")
    path = parts.path.rstrip("/")
    # People paste the address of the OpenAI interface.
    if path.endswith("/v1"):
        path = path[: -len("/v1")]
    return f"{parts.scheme}://{parts.netloc}{path}"


class Server:
    """SGLang at one address. Safe to use from several threads."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        patience: float = 60.0,
        clock: Callable[[], float] = time.perf_counter,
        digest_key: bytes = b"",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Prepares to ask; nothing is sent yet.

        Args:
            url: as `address` gives it.
            key: SGLang's own key, sent as a bearer token.
            patience: seconds without an answer after which a generating request counts as hung.
            clock: seconds, for measuring.
            digest_key: for the digests of withheld arguments.
            transport: takes the requests in place of the network.
        """
        self.url = url
        self.patience = patience
        self.clock = clock
        self._digest_key = digest_key
        self._spoken = False
        """Whether it has ever answered in HTTP."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(
            headers=headers,
            # The environment's proxy stands between us and what is measured: SGLang is asked directly.
            trust_env=False,
            transport=transport,
            follow_redirects=False,
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=256, max_keepalive_connections=0),
        )

    def close(self) -> None:
        """Lets go of all connections."""
        self._client.close()

    def facts(self) -> Facts:
        """The arguments in force; raises ProbeFailed, of kind `foreign` when this is not SGLang."""
        body = b""
        for path in INFO_PATHS:
            try:
                body = self._get(path)
                break
            except ProbeFailed as failed:
                if failed.kind != "absent" or path == INFO_PATHS[-1]:
                    if failed.kind == "absent":
                        raise ProbeFailed("foreign", self._foreign()) from failed
                    raise
        text = body.decode("utf-8", "replace")
        if not text.lstrip().startswith("{"):
            raise ProbeFailed("foreign", self._foreign())
        allowed, withheld = read_arguments(text, self._digest_key)
        if "model_path" not in allowed:
            raise ProbeFailed("foreign", f"{self.url} answers, but names no model: is this SGLang's own port?")
        version = allowed.pop("version", None)
        return Facts(arguments=allowed, withheld=withheld, version=version if isinstance(version, str) else None)

    def _foreign(self) -> str:
        return f"{self.url} is no SGLang server (it has no /server_info): give SGLang's own address, not a proxy's"

    def model(self) -> str:
        """The name to ask for; raises ProbeFailed when the server offers none."""
        document = self._json(self._get("/v1/models"), "/v1/models")
        data = document.get("data") if isinstance(document, dict) else None
        names = [one.get("id") for one in data if isinstance(one, dict)] if isinstance(data, list) else []
        if not names or not isinstance(names[0], str):
            raise ProbeFailed("foreign", f"{self.url} offers no model (/v1/models is empty): is it still loading?")
        return names[0]

    def loads(self) -> Loads | None:
        """What runs now; None where the release has no /v1/loads."""
        try:
            return read_loads(self._get("/v1/loads?include=all"), self.clock(), "loads")
        except ProbeFailed as failed:
            if failed.kind == "absent":
                return None
            raise
        except LoadsUnreadable as unreadable:
            raise ProbeFailed("foreign", f"{self.url}: {unreadable}") from unreadable

    def page(self, path: str) -> bytes | None:
        """A page; None where there is none. Raises ProbeFailed when the server is not there."""
        try:
            return self._get(path)
        except ProbeFailed as failed:
            if failed.kind == "absent":
                return None
            raise

    def traffic(self) -> Traffic | None:
        """What others are doing; None where no page of this server tells."""
        loads = self.loads()
        if loads is not None and any(rank.running is not None for rank in loads.ranks):
            return traffic_of(loads)
        page = self.page("/metrics")
        return None if page is None else traffic_of_metrics(page)

    def pool(self) -> int | None:
        """Tokens that the smallest rank's KV pool holds; None where nobody says."""
        loads = self.loads()
        pools = [rank.max_total_tokens for rank in loads.ranks if rank.max_total_tokens] if loads is not None else []
        return min(pools) if pools else None

    def longest(self, facts: Facts) -> int:
        """Tokens that one request may hold, prompt and output."""
        told = facts.arguments.get("context_length")
        limit = told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else self._model_length()
        found = [value for value in (limit, self.pool()) if value is not None]
        return min(found) if found else CAUTIOUS_LENGTH

    def _model_length(self) -> int | None:
        document = self._json(self._get("/v1/models"), "/v1/models")
        data = document.get("data") if isinstance(document, dict) else None
        first = data[0] if isinstance(data, list) and data else None
        return _count(first.get("max_model_len")) if isinstance(first, dict) else None

    def generate(self, text: str, tokens: int) -> Answer:
        """Has exactly so many tokens generated, greedily, whatever the model would like; raises ProbeFailed."""
        sampling = {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0.0}
        begun = self.clock()
        document = self._post("/generate", {"text": text, "sampling_params": sampling})
        seconds = self.clock() - begun
        meta = document.get("meta_info")
        if not isinstance(meta, Mapping):
            raise ProbeFailed("foreign", f"{self.url}/generate answers without meta_info: is this SGLang's own port?")
        return Answer(
            seconds=seconds,
            prompt_tokens=_count(meta.get("prompt_tokens")) or 0,
            completion_tokens=_count(meta.get("completion_tokens")) or 0,
            cached_tokens=_count(meta.get("cached_tokens")),
            steps=_count(meta.get("spec_verify_ct")) or None,
            drafts=_counts(meta.get("spec_correct_drafts_histogram")),
            finish=_finish(meta.get("finish_reason")),
        )

    def chat(self, model: str, question: str, tokens: int, tools: Sequence[Mapping[str, Any]] = ()) -> Said:
        """Asks one question; only what must be known of the answer is kept. Raises ProbeFailed."""
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": tokens,
            "temperature": 0.0,
        }
        if tools:
            body |= {"tools": list(tools), "tool_choice": "auto"}
        begun = self.clock()
        document = self._post("/v1/chat/completions", body)
        seconds = self.clock() - begun
        choices = document.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
        message = choice.get("message")
        message = message if isinstance(message, Mapping) else {}
        content = message.get("content")
        content = content if isinstance(content, str) else ""
        usage = document.get("usage")
        return Said(
            seconds=seconds,
            completion_tokens=_count(usage.get("completion_tokens")) if isinstance(usage, Mapping) else None,
            finish=choice["finish_reason"] if isinstance(choice.get("finish_reason"), str) else None,
            has_content=bool(content.strip()),
            has_reasoning=bool(message.get("reasoning_content")),
            marks=tuple(mark for mark in MARKS if mark in content),
            calls=_calls(message.get("tool_calls")),
        )

    def _post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        timeout = httpx.Timeout(self.patience, connect=CONNECT_SECONDS)
        document = self._json(self._ask("POST", path, json=body, timeout=timeout), path)
        if not isinstance(document, Mapping):
            raise ProbeFailed("foreign", f"{self.url}{path} answers something that is no object: is this SGLang?")
        return document

    def _get(self, path: str) -> bytes:
        return self._ask("GET", path)

    def _json(self, body: bytes, path: str) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProbeFailed(
                "foreign", f"{self.url}{path} answers something that is not JSON: is this SGLang?"
            ) from error

    def _ask(self, method: str, path: str, **more: Any) -> bytes:
        try:
            with self._client.stream(method, self.url + path, **more) as answer:
                self._check(answer, path)
                parts: list[bytes] = []
                size = 0
                for part in answer.iter_bytes():
                    size += len(part)
                    if size > BODY_BYTES:
                        raise ProbeFailed("foreign", f"{self.url}{path} sends more than 16 MiB: is this SGLang's port?")
                    parts.append(part)
                return b"".join(parts)
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            seconds = self.patience if method == "POST" else ANSWER_SECONDS
            raise failure(self.url, error, seconds, spoken=self._spoken) from error

    def _check(self, answer: httpx.Response, path: str) -> None:
        self._spoken = True
        status = answer.status_code
        where = path.partition("?")[0]
        if status in (401, 403):
            raise ProbeFailed(
                "refused", f"{self.url} wants SGLang's key: give --sglang-key-file FILE or set DDWATCH_SGLANG_KEY"
            )
        if status in (404, 405):
            raise ProbeFailed("absent", f"{self.url} has no {where}")
        if status == 407 or ("via" in answer.headers and status >= 500):
            raise ProbeFailed(
                "foreign", f"a proxy stands before {self.url} and answers {status}: go to SGLang directly"
            )
        if 300 <= status < 400:
            raise ProbeFailed(
                "foreign", f"{self.url} redirects elsewhere, which is not followed: give SGLang's own address"
            )
        if status in (502, 503, 504):
            raise ProbeFailed("down", f"{self.url}{where} answers {status}: the server behind it is down or not ready")
        if status != 200:
            raise ProbeFailed("foreign", f"{self.url}{where} answers with status {status}{self._why(answer)}")
        if "html" in answer.headers.get("content-type", ""):
            raise ProbeFailed("foreign", f"{self.url} is a web page, not SGLang: is this the right port?")

    @staticmethod
    def _why(answer: httpx.Response) -> str:
        """What SGLang says about a bad request; it names lengths and limits."""
        if answer.status_code != 400:
            return ""
        try:
            body = answer.read()[:4096]
            said = json.loads(body)
            text = said.get("message") or said.get("error", {}).get("message")
        except (ValueError, AttributeError, httpx.HTTPError):
            return ""
        plain = "".join(letter if letter.isprintable() else " " for letter in str(text or ""))[:200]
        return f": {plain}" if plain else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _counts(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > 1024:
        return ()
    found = [_count(one) for one in value]
    return tuple(one for one in found if one is not None) if None not in found else ()


def _finish(value: object) -> str | None:
    kind = value.get("type") if isinstance(value, Mapping) else value
    return kind if isinstance(kind, str) else None


def _calls(value: object) -> tuple[tuple[str, bool], ...]:
    found = []
    for call in value if isinstance(value, list) else []:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            continue
        try:
            valid = isinstance(json.loads(function.get("arguments") or "null"), dict)
        except (ValueError, TypeError, RecursionError):
            valid = False
        found.append((str(function.get("name"))[:100], valid))
    return tuple(found)

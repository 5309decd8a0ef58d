"""What the simulated service is asked for: requests, and the users whose patience and texts shape the traffic."""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from ddwatch.demo.physics import PREDICTABLE, TextClass

Range = tuple[float, float]
"""Lowest and highest value of a uniform draw."""


class Request(Struct):
    """One request on its way through a rank; the engine moves it on."""

    prompt_tokens: int
    cached_tokens: int
    """Tokens at the head of the prompt that the prefix cache already holds."""
    completion_tokens: int
    text: TextClass
    user: int
    port: int
    """Client port for the access line."""
    own: bool = False
    """True for the request that the server sends to itself before it is ready."""
    prefilled: int = 0
    """Prompt tokens computed or found in the cache so far."""
    output: int = 0
    """Tokens generated so far, the one of the prefill included."""
    told: Callable[[float, int | None, int], None] | None = None
    """For a request that came in over the port: hears when a pass of it ends, how many tokens the step committed
    (None for the prefill) and its output so far."""
    withdrawn: bool = False
    """True once its client has gone."""

    asked_at: float = 0.0
    first_token_at: float = 0.0
    drafts: list[int] = []
    """How many of its steps accepted 0, 1, 2 … drafts."""

    def step(self, tokens: int) -> None:
        """A step committed so many tokens, the bonus token included."""
        self.output = min(self.output + tokens, self.completion_tokens)
        self.drafts += [0] * (tokens - len(self.drafts))
        self.drafts[tokens - 1] += 1

    @property
    def context(self) -> int:
        """Tokens that it holds in the KV pool."""
        return self.prefilled + max(self.output - 1, 0)

    @property
    def goal(self) -> int:
        """Tokens to prefill before it can decode: the prompt, and its output so far after a retraction."""
        return self.prompt_tokens + max(self.output - 1, 0)

    @property
    def finished(self) -> bool:
        """Whether all its tokens are generated."""
        return self.output >= self.completion_tokens


class Turn(Struct, frozen=True):
    """One exact request of a conversation."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    pause: float = 2.0
    """Seconds between the end of the turn before and this one."""


class Users(Struct, frozen=True, kw_only=True):
    """So many users who ask, wait for the whole answer, think and ask again."""

    seconds: float
    """How long they keep asking; what runs then is finished first."""
    count: int = 1
    prompt: Range = (300, 900)
    completion: Range = (300, 900)
    think: Range = (0.5, 3.0)
    """Seconds between an answer and the next question."""
    texts: tuple[TextClass, ...] = (PREDICTABLE,)
    cached: float = 0.0
    """Share of each prompt that the prefix cache already holds."""
    cut: bool = False
    """True when the act ends with its requests still running (a restart under load)."""


class Conversation(Struct, frozen=True, kw_only=True):
    """One user with a fixed list of turns, each after the answer to the one before."""

    turns: tuple[Turn, ...]
    text: TextClass = PREDICTABLE


class Silence(Struct, frozen=True):
    """Nobody asks anything."""

    seconds: float


class Boot(Struct, frozen=True, kw_only=True):
    """The server starts: arguments, weights, graphs, ready line."""

    seconds: float
    """Duration of loading, from the first line to the ready line."""
    arguments: dict[str, str | int | float | bool | None] = {}
    """Arguments that differ from the usual ones."""


class Shutdown(Struct, frozen=True):
    """The operator stops the server; requests that still run are dropped."""


class Crash(Struct, frozen=True, kw_only=True):
    """The engine hangs for a while, then dies of an exception; requests that still run are dropped."""

    rank: int
    """The tensor-parallel rank that finds it out."""
    reason: str
    """The last line of its traceback."""
    seconds: float = 2.0
    """How long it hangs before."""


Act = Users | Conversation | Silence | Boot | Shutdown | Crash
"""What a scenario is made of."""


def drawn(random: Random, span: Range) -> int:
    """A whole number of tokens from a range."""
    return round(random.uniform(*span))


def asked(random: Random, act: Users, user: int) -> Request:
    """The next request of one of these users."""
    prompt = max(drawn(random, act.prompt), 1)
    text = act.texts[random.randrange(len(act.texts))]
    return Request(
        prompt_tokens=prompt,
        cached_tokens=min(int(prompt * act.cached), prompt - 1),
        completion_tokens=max(drawn(random, act.completion), 2),
        text=text,
        user=user,
        port=random.randint(32768, 60999),
    )


def turned(random: Random, act: Conversation, turn: Turn) -> Request:
    """One turn of a conversation as a request."""
    return Request(
        prompt_tokens=turn.prompt_tokens,
        cached_tokens=min(turn.cached_tokens, turn.prompt_tokens - 1),
        completion_tokens=turn.completion_tokens,
        text=act.text,
        user=0,
        port=random.randint(32768, 60999),
    )


def greeting(random: Random) -> Request:
    """The request that a server sends to itself before it is ready."""
    return Request(
        prompt_tokens=6,
        cached_tokens=0,
        completion_tokens=8,
        text=PREDICTABLE,
        user=0,
        port=random.randint(32768, 60999),
        own=True,
    )

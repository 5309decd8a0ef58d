"""Prompts of any length for each text class, none of which a prefix cache can have seen before.

A prompt begins with a number of its own, goes on with unrelated sentences up to the length that is wanted, and ends
with a passage of its class, since what comes next follows from the end. The passages were written for ddwatch.
"""

from functools import cache
from importlib.resources import files
from random import Random

CLASSES = ("predictable", "code", "reasoning")
GUESS = 4.4
"""Characters per token of English text, before the server has said how it counts."""


@cache
def passages(text_class: str) -> tuple[str, ...]:
    """The passages of a class."""
    text = files("ddwatch.probes.texts").joinpath(f"{text_class}.txt").read_text(encoding="utf-8")
    return tuple(part.strip("\n") for part in text.split("\n---\n"))


@cache
def _parts() -> tuple[tuple[str, ...], ...]:
    text = files("ddwatch.probes.texts").joinpath("filler.txt").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line]
    return tuple(tuple(column) for column in zip(*rows, strict=True))


def prompt(text_class: str, characters: int, random: Random) -> str:
    """A prompt of about so many characters; at least a short passage.

    A prompt shorter than its passage gets the end of it.
    """
    head = f"{random.getrandbits(40):x}. "
    tail = random.choice(passages(text_class))
    room = characters - len(head) - len(tail)
    if room < 0:
        return head + tail[-max(characters - len(head), 8) :]
    filler: list[str] = []
    while room > 0:
        sentence = " ".join(random.choice(column) for column in _parts()) + ". "
        filler.append(sentence)
        room -= len(sentence)
    return f"{head}{''.join(filler)}\n\n{tail}"


class Lengths:
    """Learns how many characters a token has on this server, so that prompts come out as long as wanted."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._per_token: dict[str, float] = {}

    def prompt(self, text_class: str, tokens: int) -> str:
        """A unique prompt of about so many tokens."""
        # A class that was never sent is taken to be as dense as the densest one, so that nothing comes out too long.
        rate = self._per_token.get(text_class, min(self._per_token.values(), default=GUESS))
        return prompt(text_class, round(tokens * rate), self._random)

    def learn(self, text_class: str, text: str, tokens: int) -> None:
        """The server counted so many tokens for this prompt."""
        if tokens > 0:
            self._per_token[text_class] = len(text) / tokens

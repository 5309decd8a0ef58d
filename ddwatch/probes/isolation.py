"""Two-point isolation: two requests that differ in their output length only, so that their difference is pure decoding.

Prefill, queueing and the network are in both and cancel. Steps are those that the server counts (usage, never
chunks); prompts are unique, so no prefix cache helps. With a batch, all requests start together and the one that
finishes first is the one that counts: until then the batch was whole.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ddwatch.core.expectation.measured import Measured
from ddwatch.core.records import Loads
from ddwatch.probes.failures import ProbeFailed
from ddwatch.probes.server import Answer, Server
from ddwatch.probes.texts import Lengths
from ddwatch.probes.traffic import traffic_of

SHORT_TOKENS = 16
"""Output of the shorter request: enough for the first steps after the prefill to be over."""
SPANS = (64, 256)
"""Fewest and most tokens by which the longer request is longer; in between a third of the context."""
SHORTEST_PROMPT = 12
FEWEST_MOMENTS = 15
"""Steps between two readings of the moments, from which they tell a step time."""
CROWD = 1.05
"""Mean batch, over the one that was asked for, from which somebody else was there too."""


class Disturbed(Exception):
    """Something came in between; the point is worth nothing."""

    def __init__(self, sentence: str, *, others: bool) -> None:
        """Takes one sentence, and whether others used the server meanwhile."""
        super().__init__(sentence)
        self.sentence = sentence
        self.others = others


def moved(before: Loads, after: Loads) -> tuple[float, float, float, float] | None:
    """Steps, batch, microseconds and tokens between two readings of the moments, summed over ranks; None for none."""
    sums = (0.0, 0.0, 0.0, 0.0)
    earlier = {rank.dp_rank: rank.moments for rank in before.ranks}
    seen = False
    for rank in after.ranks:
        old, new = earlier.get(rank.dp_rank), rank.moments
        if new is not None and old is not None and new[0] >= old[0]:
            seen = True
            steps, batches, micros, tokens = sums
            sums = (
                steps + new[0] - old[0],
                batches + new[1] - old[1],
                micros + new[2] - old[2],
                tokens + new[5] - old[5],
            )
    return sums if seen else None


def mean_batch(before: Loads, after: Loads) -> float | None:
    """Mean batch of the steps between two readings of the moments; None without enough of them."""
    sums = moved(before, after)
    return sums[1] / sums[0] if sums is not None and sums[0] >= 8 else None


class Shape(NamedTuple):
    """Lengths of a pair of requests whose difference lies around a context."""

    prompt: int
    short: int
    long: int


def shape_for(context: int) -> Shape:
    """The pair whose difference has its middle at this context."""
    span = min(max(context // 3, SPANS[0]), SPANS[1])
    short, long = SHORT_TOKENS, SHORT_TOKENS + span
    return Shape(max(context - (short + long) // 2, SHORTEST_PROMPT), short, long)


class Isolation:
    """Measures points on one server."""

    def __init__(self, server: Server, lengths: Lengths, *, speculative: bool) -> None:
        """Prepares.

        Args:
            server: where to measure.
            lengths: makes the prompts.
            speculative: whether a step may commit several tokens, so that steps must be counted by the server.
        """
        self.server = server
        self._lengths = lengths
        self.speculative = speculative
        self._last_batch = 1
        """Of the pair before, whose last steps may be published only during this one."""

    def ask(self, text_class: str, prompt_tokens: int, tokens: int) -> Answer:
        """One request; raises ProbeFailed."""
        text = self._lengths.prompt(text_class, prompt_tokens)
        answer = self.server.generate(text, tokens)
        self._lengths.learn(text_class, text, answer.prompt_tokens)
        return answer

    def steps(self, answer: Answer) -> int:
        """Decode steps of a request; raises ProbeFailed where the server does not count them."""
        if answer.steps is not None:
            return answer.steps
        if self.speculative:
            raise ProbeFailed(
                "absent",
                f"{self.server.url} speculates and counts its verify steps neither in answers (spec_verify_ct) nor in "
                "/v1/loads (decode_moments): fit its log instead, with ddwatch fit",
            )
        return max(answer.completion_tokens - 1, 0)

    def point(self, text_class: str, context: int, batch: int = 1) -> Measured:
        """Measures one point; raises ProbeFailed, or Disturbed when somebody else was there."""
        shape = shape_for(context)
        last_batch, self._last_batch = self._last_batch, batch
        before = self.server.loads()
        if before is not None and traffic_of(before).busy:
            raise Disturbed(f"others use the server ({traffic_of(before).words()})", others=True)
        short = self._together(text_class, shape.prompt, shape.short, batch)
        between = self.server.loads() if self._uncounted(short) else None
        long = self._together(text_class, shape.prompt, shape.long, batch)
        after = self.server.loads()
        if before is not None and after is not None:
            met = mean_batch(before, after)
            crowd = traffic_of(after)
            if crowd.busy or (met is not None and met > CROWD * max(batch, last_batch)):
                raise Disturbed(f"others began to use the server ({crowd.words()})", others=True)
        if self._uncounted(long) and between is not None and after is not None:
            found = self._by_moments(text_class, context, between, after, long)
            if found is not None:
                return found
        return self._difference(text_class, context, short, long)

    def _uncounted(self, answers: Sequence[Answer]) -> bool:
        """Whether steps commit several tokens and the answers do not say how many steps there were."""
        return self.speculative and any(answer.steps is None for answer in answers)

    @staticmethod
    def _by_moments(
        text_class: str, context: int, before: Loads, after: Loads, answers: Sequence[Answer]
    ) -> Measured | None:
        """A point from the decode moments of the longer requests, where answers do not count steps.

        The moments leave prefill out by themselves; they end up to fifteen steps early. None without enough of them.
        """
        sums = moved(before, after)
        if sums is None or sums[0] < FEWEST_MOMENTS or sums[1] <= 0:
            return None
        steps, batches, micros, tokens = sums
        # A batch that was not whole all the time has another step time.
        if batches / steps < 0.9 * len(answers):
            return None
        contexts = [one.prompt_tokens + one.completion_tokens / 2.0 for one in answers]
        return Measured(
            batch=len(answers),
            context_target=context,
            context_tokens=sum(contexts) / len(contexts),
            text_class=text_class,
            step_seconds=micros / steps / 1e6,
            steps=round(steps),
            accept_length=tokens / batches,
            accept_steps=round(batches),
        )

    def _together(self, text_class: str, prompt: int, tokens: int, batch: int) -> list[Answer]:
        """So many requests at once, the first to finish first, each timed from the common start."""
        if batch == 1:
            return [self.ask(text_class, prompt, tokens)]
        with ThreadPoolExecutor(batch) as pool:
            found = [pool.submit(self.ask, text_class, prompt, tokens) for _ in range(batch)]
            answers = [one.result() for one in found]
        return sorted(answers, key=lambda answer: answer.seconds)

    def _difference(self, text_class: str, context: int, short: Sequence[Answer], long: Sequence[Answer]) -> Measured:
        first, last = short[0], long[0]
        early, late = self.steps(first), self.steps(last)
        steps, seconds = late - early, last.seconds - first.seconds
        if steps < 3 or seconds <= 0:
            raise Disturbed(
                f"a longer answer did not take longer ({seconds:+.3f} s for {steps:+d} steps)", others=False
            )
        step = seconds / steps
        middle = (early + late) / 2.0
        contexts = [one.prompt_tokens + middle * one.completion_tokens / max(self.steps(one), 1) for one in long]
        # The steps of the short answer lie around another context, which is close enough for the prefill.
        prefill = first.seconds - early * step
        everything = [*short, *long]
        drafts = added([one.drafts for one in everything])
        counted = sum(drafts)
        accept: float | None = None
        weight = 0
        if counted:
            accept, weight = 1.0 + sum(k * count for k, count in enumerate(drafts)) / counted, counted
        elif self.speculative:
            weight = sum(self.steps(one) for one in everything)
            # The token of the prefill is no step's.
            accept = sum(one.completion_tokens - 1 for one in everything) / weight if weight else None
        else:
            accept, weight = 1.0, steps
        return Measured(
            batch=len(long),
            context_target=context,
            context_tokens=sum(contexts) / len(contexts),
            text_class=text_class,
            step_seconds=step,
            steps=steps,
            drafts=drafts,
            accept_length=accept,
            accept_steps=weight,
            prefill_seconds=prefill if prefill > 0 and len(long) == 1 else None,
            prompt_tokens=first.prompt_tokens - (first.cached_tokens or 0),
        )


def added(counts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Distributions, added up."""
    total = [0] * max((len(one) for one in counts), default=0)
    for one in counts:
        for index, count in enumerate(one):
            total[index] += count
    return tuple(total)

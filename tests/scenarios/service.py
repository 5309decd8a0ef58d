"""A service of known truth for the stories: step times of another form than any model, as SGLang's decode lines."""

from collections.abc import Iterator
from functools import cache
from random import Random

import msgspec

from ddwatch.core.expectation.fit import Gathering, fit_profile
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.grammar import LogReader
from ddwatch.core.positions import Positions
from ddwatch.core.records import ServerStart
from ddwatch.demo.physics import Noise, TextClass, text_class
from tests.core.detection.traffic import MODEL, truth

LEARNED_BATCHES = (1, 2, 4, 8, 16)
LEARNED_TOTAL = (400.0, 36000.0)
"""Total contexts that the stories' profile has seen."""
LEARNED_LINES = 120
"""... at each batch."""
PREFILL = (
    "Prefill batch, #new-seq: {batch}, #new-token: {tokens}, #cached-token: 0, token usage: 0.01, #running-req: 0, "
    "#queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 3000.00"
)
PREFILL_SECONDS = 0.4


class Work(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Decode lines from `at` up to `until`, of requests that follow one another."""

    at: float = 0.0
    until: float
    batch: int = 1
    context: tuple[int, int] = (1000, 16000)
    """Tokens of one request when it begins to decode, and when it ends."""
    accept: float = 5.2
    interval: int = 10
    """Steps that a line means over."""
    grow: float | None = None
    """Tokens by which a request grows between two lines; what was accepted when left out."""
    offset_ms: float = 0.0
    """On every step."""
    factor: float = 1.0
    """On every step."""
    steeper: float = 1.0
    """Factor on what context costs."""
    ramp: float = 0.0
    """Seconds over which offset, factor and slope grow to their size."""
    hiccup: float | None = None
    """When one step takes two seconds longer."""
    graph: bool = True
    rate: float | None = None
    """The accept rate that is printed."""
    prefix: str = "TP0"
    seed: int = 1
    noise: bool = True


def seconds(work: Work, batch: float, total: float, into: float) -> float:
    """The true time of a step so many seconds into the work."""
    grown = min(1.0, into / work.ramp) if work.ramp else 1.0
    healthy = truth(batch, total)
    steeper = (work.steeper - 1.0) * (healthy - MODEL.seconds(batch, 0.0))
    return healthy * (1.0 + (work.factor - 1.0) * grown) + (steeper + work.offset_ms / 1000.0) * grown


def accepted(text: TextClass, random: Random, draws: int) -> float:
    """The mean of so many draws, as it is printed; one draw below the limits of a drafter that brings nothing."""
    return round(sum(text.draw(random) for _ in range(draws)) / draws, 2)


def lines(work: Work, start: float) -> Iterator[tuple[float, str]]:
    """Time and text of each line, without stamp and prefix; `start` is when the story begins."""
    random = Random(work.seed)
    noise, text = Noise(random), text_class("text", work.accept)
    low, high = work.context
    at, context = work.at, float(low)
    while True:
        total = round(work.batch * context)
        spread = noise.factor() if work.noise else 1.0
        step = seconds(work, float(work.batch), float(total), at - work.at) * spread
        extra = 2.0 if work.hiccup is not None and at <= work.hiccup < at + work.interval * step else 0.0
        accept = accepted(text, random, work.interval * work.batch)
        took = work.interval * step + extra
        at += took
        if at > work.until:
            return
        throughput = work.interval * work.batch * accept / took
        rate = (accept - 1.0) / 32.0 if work.rate is None else work.rate
        yield (
            start + at,
            f"Decode batch, #running-req: {work.batch}, #token: {total}, token usage: 0.01, accept len: {accept:.2f}, "
            f"accept rate: {rate:.2f}, cuda graph: {work.graph}, gen throughput (token/s): {throughput:.2f}, "
            "#queue-req: 0",
        )
        context += work.interval * accept if work.grow is None else work.grow
        if context > high:
            at += PREFILL_SECONDS
            yield start + at, PREFILL.format(batch=work.batch, tokens=work.batch * low)
            context = float(low)


@cache
def learned(accept: tuple[float, ...]) -> Profile:
    """What ddwatch fits to healthy lines of texts of these accept lengths, through grammar and positions."""
    gathering = Gathering()
    for text in accept:
        for number, batch in enumerate(LEARNED_BATCHES):
            least, most = (total / batch for total in LEARNED_TOTAL)
            grow = (most - least) / LEARNED_LINES
            work = Work(
                until=1e6,
                batch=batch,
                context=(int(least), int(most) + 1),
                accept=text,
                grow=grow,
                interval=40,
                seed=100 + number,
            )
            reader, positions = LogReader(None, 0.0), Positions()
            gathering.cut()
            for count, (at, line) in enumerate(lines(work, 0.0)):
                if count > LEARNED_LINES:
                    break
                for record in reader.read(f"[TP0] {line}".encode(), at, None):
                    assert not isinstance(record, ServerStart)
                    sample = positions.see(record)
                    if sample is not None:
                        gathering.see(sample)
    profile = fit_profile(
        gathering.observations(),
        name="learned",
        samples=gathering.samples,
        pairs=gathering.pairs(),
        windows=list(gathering.windows.kept),
    )
    assert isinstance(profile, Profile) and profile.calibrated
    return profile

"""The named stories that the simulated service can play; the list SCENARIOS is all there is."""

from collections.abc import Callable, Iterator
from datetime import timezone, tzinfo
from itertools import chain, cycle

from msgspec import Struct

from ddwatch.core.snapshot import VerdictName
from ddwatch.demo.engine import Outside, Simulation, Step
from ddwatch.demo.gpus.cards import HW_SLOWDOWN, HW_THERMAL, POWER_CAP, Ailment, stretch
from ddwatch.demo.log_writer import LogWriter
from ddwatch.demo.physics import CODE, PREDICTABLE, REASONING
from ddwatch.demo.requests import Act, Boot, Conversation, Crash, Shutdown, Silence, Turn, Users

LOAD_SECONDS = 594.0
"""The founding server took ten minutes to load 548 GB."""
SHORT_LOAD_SECONDS = 20.0
"""A load that an audience can sit through."""
PARSERS: dict[str, str | int | float | bool | None] = {"tool_call_parser": "kimi_k2", "reasoning_parser": "kimi_k2"}
"""The two harmless flags of the founding incident."""


class Scenario(Struct, frozen=True, kw_only=True):
    """A story: `opening` is played once, then `rest` over and over."""

    name: str
    story: str
    """One line for --help."""
    opening: tuple[Act, ...]
    rest: tuple[Act, ...]
    lead: float
    """Seconds of the story that already lie in the past when the demo opens, so that its plots are full."""
    ranks: int = 1
    pool_tokens: int = 262144
    bonus_twice: bool = False
    """Whether the log counts the bonus token twice; the decode moments never do."""
    ailments: tuple[Ailment, ...] = ()
    """What befalls the GPUs; a slower card makes the steps longer."""
    pages: VerdictName | None = None
    """The verdict that pages someone in it; None where nothing is wrong."""


GPU_LEAD = LOAD_SECONDS + 300
AILS = GPU_LEAD + 12
"""When a GPU begins to ail: an audience has seen it well for a moment."""
STEADY_USERS = Users(seconds=600, count=2, texts=(CODE,), prompt=(300, 500), completion=(700, 1100), think=(0.3, 1.0))
"""A load that stays the same, so that only the cards make a difference."""
REMEMBERED = Users(seconds=170, prompt=(1900, 2100), completion=(350, 650), think=(0.4, 1.2), texts=(PREDICTABLE,))
"""Predictable text at about 2.3k tokens of context: the 138 tokens/s that a human remembers."""

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="steady",
        story="two users, mixed texts, nothing wrong",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(
            Users(
                seconds=600, count=2, texts=(PREDICTABLE, CODE, REASONING), prompt=(200, 900), completion=(300, 1200)
            ),
        ),
        lead=LOAD_SECONDS + 300,
    ),
    Scenario(
        name="founding",
        story="138 tokens/s, a restart with two parser flags, then long reasoning: 4x slower and nothing is wrong",
        opening=(
            Boot(seconds=LOAD_SECONDS),
            REMEMBERED,
            Shutdown(),
            Boot(seconds=SHORT_LOAD_SECONDS, arguments=PARSERS),
            Conversation(
                text=REASONING,
                turns=(
                    Turn(420, 780),
                    Turn(1330, 820, cached_tokens=1200),
                    Turn(2290, 860, cached_tokens=2150),
                    Turn(3239, 2750, cached_tokens=3150),
                ),
            ),
        ),
        rest=(
            Conversation(
                text=REASONING,
                turns=(Turn(3239, 2750, cached_tokens=3150, pause=5), Turn(4100, 1900, cached_tokens=2900, pause=5)),
            ),
        ),
        lead=LOAD_SECONDS + 170,
    ),
    Scenario(
        name="prefill",
        story="long prompts arrive in chunks and starve the answers that are being written",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(
            Users(seconds=40, count=2, texts=(CODE,), prompt=(300, 900), completion=(400, 900), cut=True),
            Users(seconds=60, count=1, texts=(CODE,), prompt=(40000, 70000), completion=(60, 120), think=(6, 12)),
        ),
        lead=LOAD_SECONDS + 200,
    ),
    Scenario(
        name="idle",
        story="a question now and then, long pauses between them",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(
            Conversation(text=CODE, turns=(Turn(500, 700), Turn(1300, 500, cached_tokens=1200, pause=6))),
            Silence(45),
            Conversation(text=PREDICTABLE, turns=(Turn(300, 900, pause=1),)),
            Silence(80),
        ),
        lead=LOAD_SECONDS + 290,
    ),
    Scenario(
        name="restart",
        story="the server is restarted under load, again and again, each time with other arguments",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(
            Users(seconds=70, count=3, texts=(CODE, PREDICTABLE), cut=True),
            Shutdown(),
            Boot(seconds=SHORT_LOAD_SECONDS, arguments={"attention_backend": "trtllm_mla", "max_running_requests": 48}),
            Users(seconds=70, count=3, texts=(CODE, PREDICTABLE), cut=True),
            Shutdown(),
            Boot(seconds=SHORT_LOAD_SECONDS),
        ),
        lead=LOAD_SECONDS + 262,
    ),
    Scenario(
        name="dp",
        story="eight data-parallel ranks that step together; some sleep while others work",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(
            Users(seconds=60, count=24, texts=(PREDICTABLE, CODE, REASONING), prompt=(200, 1200), think=(1, 6)),
            Users(seconds=40, count=5, texts=(CODE,), prompt=(200, 1200), think=(1, 4)),
        ),
        lead=LOAD_SECONDS + 120,
        ranks=8,
        pool_tokens=8 * 131072,
    ),
    Scenario(
        name="retract",
        story="the KV pool is too small for its users: it fills up and requests are sent back to the queue",
        opening=(Boot(seconds=LOAD_SECONDS, arguments={"mem_fraction_static": 0.81}),),
        rest=(
            Users(seconds=120, count=6, texts=(CODE, REASONING), prompt=(400, 1500), completion=(900, 2600)),
            Silence(10),
        ),
        lead=LOAD_SECONDS + 200,
        pool_tokens=8192,
    ),
    Scenario(
        name="server",
        story="an idle service with both parsers that waits for requests on its port, for check and calibrate",
        opening=(Boot(seconds=LOAD_SECONDS, arguments=PARSERS),),
        rest=(Silence(3600),),
        lead=LOAD_SECONDS + 60,
    ),
    Scenario(
        name="two-witnesses",
        story="an old fault: the log counts the bonus token twice, /v1/loads counts it once",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(Users(seconds=600, count=2, texts=(REASONING,), prompt=(200, 900), completion=(600, 1500)),),
        lead=LOAD_SECONDS + 120,
        bonus_twice=True,
    ),
    Scenario(
        name="throttle",
        story="GPU 5 gets too hot: its hardware slows it down to 1.62 GHz, and every step waits for it",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(STEADY_USERS,),
        lead=GPU_LEAD,
        pages="slow-step",
        ailments=(
            Ailment(card=5, after=GPU_LEAD - 10, celsius=93),
            Ailment(card=5, after=AILS, celsius=93, clock=1620, reasons=HW_SLOWDOWN | HW_THERMAL),
        ),
    ),
    Scenario(
        name="pcie",
        story="the PCIe link of GPU 3 falls back to Gen2 under load: the cards wait for each other longer",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(STEADY_USERS,),
        lead=GPU_LEAD,
        pages="slow-step",
        ailments=(Ailment(card=3, after=AILS, generation=2),),
    ),
    Scenario(
        name="straggler",
        story="GPU 2 runs at 1.86 GHz and its driver tells no reason: one slow card of eight holds up the others",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(STEADY_USERS,),
        lead=GPU_LEAD,
        pages="slow-step",
        ailments=(Ailment(card=2, after=AILS, clock=1860),),
    ),
    Scenario(
        name="gpu-lost",
        story="GPU 5 falls off the bus (Xid 79), the engine hangs, then dies and stays down",
        opening=(
            Boot(seconds=LOAD_SECONDS),
            Users(
                seconds=AILS - LOAD_SECONDS,
                count=2,
                texts=(CODE,),
                prompt=(300, 500),
                completion=(300, 500),
                think=(0.3, 1.0),
                cut=True,
            ),
            Crash(rank=5, reason="torch.AcceleratorError: CUDA error: unspecified launch failure"),
        ),
        rest=(Silence(3600),),
        lead=GPU_LEAD,
        pages="down",
        ailments=(Ailment(card=5, after=AILS, lost=True, xid=79),),
    ),
    Scenario(
        name="power-cap",
        story="GPU 1 runs at its power limit and all links rest at Gen1 between questions: nothing is wrong",
        opening=(Boot(seconds=LOAD_SECONDS),),
        rest=(
            Users(seconds=25, count=2, texts=(CODE,), prompt=(300, 500), completion=(300, 500), think=(0.3, 1.0)),
            Silence(12),
        ),
        lead=GPU_LEAD,
        ailments=(Ailment(card=1, watts=350, clock=2340, reasons=POWER_CAP),),
    ),
)


def scenario(name: str) -> Scenario:
    """The scenario of this name; raises KeyError when there is none."""
    for story in SCENARIOS:
        if story.name == name:
            return story
    raise KeyError(name)


def simulation(
    story: Scenario,
    seed: int,
    start: float,
    *,
    interval: int = 1,
    zone: tzinfo | None = timezone.utc,
    observe: Callable[[Step], None] | None = None,
    outside: Outside | None = None,
) -> Simulation:
    """The service of a scenario, before its first act (see `lines`)."""
    return Simulation(
        LogWriter(zone, dp=story.ranks),
        seed=f"{story.name}:{seed}",
        start=start,
        ranks=story.ranks,
        interval=interval,
        pool_tokens=story.pool_tokens,
        bonus_twice=story.bonus_twice,
        stretch=lambda at: stretch(story.ailments, at - start),
        observe=observe,
        outside=outside,
    )


def acts(story: Scenario) -> Iterator[Act]:
    """Everything that happens in a story, endless."""
    return chain(story.opening, cycle(story.rest))


def lines(
    story: Scenario,
    seed: int,
    start: float,
    *,
    interval: int = 1,
    zone: tzinfo | None = timezone.utc,
    observe: Callable[[Step], None] | None = None,
    until: float = float("inf"),
) -> Iterator[tuple[float, str]]:
    """The log of a scenario from `start` on (seconds since the epoch), each line with its time.

    It is endless but for `until`: no act is begun after that. `zone` is the zone of its stamps, None the one of this
    machine. The same arguments give the same lines.
    """
    told = simulation(story, seed, start, interval=interval, zone=zone, observe=observe)
    return told.play(acts(story), until)


def generate(
    name: str,
    seed: int,
    start: float,
    seconds: float,
    *,
    interval: int = 1,
    zone: tzinfo | None = timezone.utc,
    observe: Callable[[Step], None] | None = None,
) -> Iterator[tuple[float, str]]:
    """The first `seconds` of a scenario's log at once; raises KeyError for an unknown name."""
    end = start + seconds
    for at, line in lines(scenario(name), seed, start, interval=interval, zone=zone, observe=observe, until=end):
        if at > end:
            return
        yield at, line

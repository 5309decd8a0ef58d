"""What the simulated cards do: clocks, power, heat, memory and link follow the load, and one of them may ail.

The step of the simulated service waits for the slowest card: `stretch` is the one law that both sides follow, the time
that a step takes and the clocks and links that the driver's stand-in reports.
"""

from collections.abc import Sequence
from random import Random

from msgspec import Struct

NAME = "NVIDIA RTX PRO 6000 Blackwell"
COUNT = 8
GIB = 1024**3
MEMORY_TOTAL = 96 * GIB
DRIVER_MEMORY = 0.6 * GIB
"""In use on a card that nobody uses."""
SERVED_MEMORY = 90.1 * GIB
"""Weights, KV pool and graphs of the served model."""
LOADING_RATE = 5 * GIB
"""Bytes per second that a card fills with while the model is loaded."""

BOOST = 2410.0
"""MHz of the SMs under load."""
REST_CLOCK, MEMORY_CLOCK, REST_MEMORY_CLOCK = 180.0, 12481.0, 405.0
CLOCK_STEP = 15.0
"""Clocks move in steps of this many MHz."""
POWER_LIMIT, LOAD_WATTS, REST_WATTS = 600.0, 412.0, 33.0
LOAD_CELSIUS, REST_CELSIUS, SLOWDOWN_CELSIUS = 66.0, 34.0, 92.0
HEAT_SECONDS = 12.0
"""Time in which the distance to the final temperature falls to a third."""
REST_SECONDS = 4.0
"""After so long without work a card lowers its clocks and its link."""
GENERATION, REST_GENERATION, WIDTH = 5, 1, 16
LONGEST_STEP = 5.0
"""Seconds after which the last state says nothing about the present one."""

CLOCK_SHARE = 0.7
"""Share of a step that follows the SM clock; the rest waits for memory, links and the CPU."""
LINK_SHARE = 0.07
"""Share of a step that follows the PCIe link: the cards exchange activations over it."""

IDLE, POWER_CAP, HW_SLOWDOWN, HW_THERMAL = 0x1, 0x4, 0x8, 0x40
COUNTED = {POWER_CAP: 74, 0x20: 269, HW_THERMAL: 270, 0x80: 271}
"""Clock-event reasons whose time NVML counts, with the number of the field."""
NANOSECONDS = 1e9
XID_SECONDS = 120.0
"""How long a fault stays in the state file, so that a reader that comes later hears of it once."""
LOST = 15
"""NVML_ERROR_GPU_IS_LOST."""


class Ailment(Struct, frozen=True, kw_only=True):
    """What one card has, from some moment of the story on."""

    card: int
    after: float = 0.0
    """Seconds of the story."""
    clock: float | None = None
    """MHz that its SMs do not exceed."""
    celsius: float | None = None
    """Its temperature under load."""
    watts: float | None = None
    """Its power limit."""
    reasons: int = 0
    """Clock-event reasons that hold under load."""
    generation: int | None = None
    """PCIe generation that its link does not exceed."""
    xid: int | None = None
    """A fault that the driver reports when it begins."""
    lost: bool = False
    """Whether the driver cannot reach it any more."""


def stretch(ailments: Sequence[Ailment], seconds: float) -> float:
    """By what factor a step takes longer at a moment of the story, because all cards wait for the slowest one."""
    factors = [1.0]
    for one in ailments:
        if seconds >= one.after:
            clock = BOOST / one.clock if one.clock is not None else 1.0
            link = 2.0 ** (GENERATION - one.generation) if one.generation is not None else 1.0
            factors.append(1.0 + CLOCK_SHARE * (clock - 1.0) + LINK_SHARE * (link - 1.0))
    return max(factors)


class _Card:
    """What changes over time on one card."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.offset = (0.0, 2.0, 4.0, 3.0, 1.0, 5.0, 3.0, 2.0)[index % 8]
        """Its slot is a little warmer or cooler than the next one."""
        self.celsius = REST_CELSIUS + self.offset / 2
        self.counted = dict.fromkeys(COUNTED, 0.0)


class Cards:
    """The cards of one story; told how busy they are, they say what the driver's stand-in reports."""

    def __init__(self, seed: str, ailments: Sequence[Ailment] = (), count: int = COUNT) -> None:
        self._random = Random(f"{seed}:cards")
        self._ailments = tuple(ailments)
        self._cards = [_Card(index) for index in range(count)]
        self._at: float | None = None
        self._busy = 0.0
        self._memory = DRIVER_MEMORY
        self._worked_at = float("-inf")

    def advance(self, seconds: float, busy: float, *, serving: bool, loading: bool = False) -> None:
        """Moves on to a moment of the story.

        Args:
            seconds: of the story.
            busy: share of the time since the last call in which the service worked.
            serving: whether the model is in memory.
            loading: whether it is being loaded.
        """
        passed = 0.0 if self._at is None else max(0.0, seconds - self._at)
        first, self._at, self._busy = self._at is None, seconds, busy
        if busy > 0.02:
            self._worked_at = seconds
        if loading and not serving:
            self._memory = min(SERVED_MEMORY, self._memory + LOADING_RATE * passed)
        else:
            self._memory = SERVED_MEMORY if serving else DRIVER_MEMORY
        share = 1.0 if first else 1.0 - 0.37 ** (passed / HEAT_SECONDS)
        for card in self._cards:
            ailing = self._of(card.index)
            hot = next((one.celsius for one in ailing if one.celsius is not None), LOAD_CELSIUS + card.offset)
            rest = REST_CELSIUS + card.offset / 2
            card.celsius += share * (rest + busy * (hot - rest) - card.celsius)
            for reason in COUNTED:
                if self._reasons(card.index) & reason:
                    card.counted[reason] += passed

    def text(self) -> str:
        """The state file of the driver's stand-in."""
        lines = [f"sys count {len(self._cards)}", "sys driver 580.95.05"]
        resting = self._resting
        for card in self._cards:
            ailing = self._of(card.index)
            values: dict[str, object] = {
                "name": NAME,
                "uuid": f"GPU-5a000000-0000-4000-8000-{card.index:012x}",
                "pci": f"00000000:{0x11 + 0x10 * card.index:02X}:00.0",
                "utilization": 0 if self._busy == 0.0 else round(97 * self._busy + self._random.uniform(-1.5, 1.5)),
                "memory_utilization": round(62 * self._busy),
                "sm_clock": round(self._clock(card.index)),
                "sm_clock_max": 2430,
                "memory_clock": round(REST_MEMORY_CLOCK if resting else MEMORY_CLOCK),
                "memory_clock_max": round(MEMORY_CLOCK),
                "power": round(1000 * self._watts(card)),
                "power_limit": round(1000 * self._limit(card.index)),
                "temperature": round(card.celsius),
                "slowdown": round(SLOWDOWN_CELSIUS),
                "memory_total": MEMORY_TOTAL,
                "memory_used": round(self._memory),
                "pstate": 8 if resting else 0,
                "reasons": self._reasons(card.index),
                "link_gen": self._generation(card.index),
                "link_width": WIDTH,
                "link_gen_max": GENERATION,
                "link_width_max": WIDTH,
                "field_82": round(card.celsius + 8),
            }
            zero = ("replays", "mig", "ecc_corrected", "ecc_uncorrected", "remap_pending", "rows_remapped", "field_230")
            values |= dict.fromkeys(zero, 0)
            values |= {f"field_{COUNTED[reason]}": round(time * NANOSECONDS) for reason, time in card.counted.items()}
            lines += [f"gpu {card.index} {key} {value}" for key, value in values.items()]
            if any(one.lost for one in ailing):
                lines.append(f"gpu {card.index} * error {LOST}")
        serial = 0
        for one in self._ailments:
            if one.xid is not None:
                serial += 1
                if one.after <= self._seconds <= one.after + XID_SECONDS:
                    lines.append(f"xid {serial} {one.card} {one.xid}")
        return "\n".join(lines) + "\n"

    @property
    def _seconds(self) -> float:
        return self._at if self._at is not None else 0.0

    @property
    def _resting(self) -> bool:
        return self._seconds - self._worked_at > REST_SECONDS

    def _of(self, index: int) -> list[Ailment]:
        return [one for one in self._ailments if one.card == index and self._seconds >= one.after]

    def _clock(self, index: int) -> float:
        if self._resting:
            return REST_CLOCK
        ceiling = min([BOOST, *(one.clock for one in self._of(index) if one.clock is not None)])
        return ceiling - CLOCK_STEP * (self._random.random() < 0.2)

    def _limit(self, index: int) -> float:
        return min([POWER_LIMIT, *(one.watts for one in self._of(index) if one.watts is not None)])

    def _watts(self, card: _Card) -> float:
        limit = self._limit(card.index)
        if self._resting:
            return REST_WATTS + card.offset
        wanted = (LOAD_WATTS + 3 * card.offset) * self._clock(card.index) / BOOST
        if self._reasons(card.index) & POWER_CAP:
            wanted = limit
        return min(limit, 90.0 + self._busy * (wanted - 90.0)) - self._random.uniform(0.0, 6.0)

    def _reasons(self, index: int) -> int:
        if self._resting:
            return IDLE
        found = 0
        for one in self._of(index):
            found |= one.reasons
        return found

    def _generation(self, index: int) -> int:
        if self._resting:
            return REST_GENERATION
        return min([GENERATION, *(one.generation for one in self._of(index) if one.generation is not None)])

"""Names the card that holds up the others: all ranks of a step wait for the slowest one."""

from collections.abc import Mapping
from typing import NamedTuple

from ddwatch.core.gpus.judging import LINK_SHARE, finding, label, link_step, link_words, megahertz
from ddwatch.core.gpus.outliers import PEERS, low
from ddwatch.core.gpus.past import CardPast, Quantity
from ddwatch.core.hardware import GpuCard
from ddwatch.core.hardware_view import Finding, FindingKind


def link_capacity(card: GpuCard) -> float | None:
    """What a link carries, up to a factor: each generation doubles a lane."""
    if card.pcie_generation is None or card.pcie_width is None:
        return None
    return float(2**card.pcie_generation * card.pcie_width)


class Compared(NamedTuple):
    """One quantity in which a straggler shows."""

    quantity: Quantity
    same_as: FindingKind
    """The finding that says the same of the card by itself."""
    share: float = 0.5
    """Share of the readings under load that must not exceed the value: links flap."""


COMPARED: tuple[Compared, ...] = (
    Compared(lambda card: card.memory_clock_hertz, "memory-clock"),
    Compared(lambda card: card.sm_clock_hertz, "sm-clock"),
    Compared(link_capacity, "pcie-link", LINK_SHARE),
)


class Straggler(NamedTuple):
    """A card that is lower than its peers."""

    finding: Finding
    same_as: FindingKind
    others: float
    """What its peers have of that quantity."""


def compared(pasts: Mapping[str, CardPast]) -> frozenset[str]:
    """The cards that have enough peers at work to be compared with."""
    return frozenset(name for group in _groups(pasts).values() for name in group if len(group) > PEERS)


def stragglers(pasts: Mapping[str, CardPast]) -> dict[str, Straggler]:
    """The cards that are slower than the others of their kind, each with the first quantity in which it shows."""
    found: dict[str, Straggler] = {}
    for group in _groups(pasts).values():
        for item in COMPARED:
            values = {
                name: value
                for name, past in group.items()
                if (value := past.under_load(item.quantity, item.share)) is not None
            }
            for name, others in low(values).items():
                if name not in found:
                    told = _told(group[name], item, values[name], others, group)
                    found[name] = Straggler(told, item.same_as, others)
    return found


def _groups(pasts: Mapping[str, CardPast]) -> dict[str | None, dict[str, CardPast]]:
    """Cards of the same make that are at work."""
    groups: dict[str | None, dict[str, CardPast]] = {}
    for name, past in pasts.items():
        if past.loaded:
            groups.setdefault(past.card.name, {})[name] = past
    return groups


def _told(past: CardPast, item: Compared, value: float, others: float, group: Mapping[str, CardPast]) -> Finding:
    card = past.card
    peer = min(
        (other.card for other in group.values() if other is not past),
        key=lambda other: abs((item.quantity(other) or 0.0) - others),
    )
    if item.same_as == "pcie-link":
        here, there = (link_words(each.pcie_generation, each.pcie_width) for each in (card, peer))
        words = f"{label(card)} has its PCIe link at {here}, the others at {there}"
        step = f"{link_step(card)}; every step waits for it"
    else:
        part = "memory" if item.same_as == "memory-clock" else "SMs"
        words = f"{label(card)} runs its {part} at {megahertz(value)}, the others at {megahertz(others)}"
        step = (
            f"compare nvidia-smi -q -i {card.index} -d PERFORMANCE,CLOCK,POWER,TEMPERATURE with another card: "
            "every step waits for it"
        )
    limit, theirs = card.power_limit_watts, peer.power_limit_watts
    if limit is not None and theirs is not None and limit < theirs and item.same_as == "sm-clock":
        words += f"; its power limit is {limit:.0f} W, theirs {theirs:.0f} W"

    def below(seen: GpuCard) -> bool:
        measured = item.quantity(seen)
        return measured is not None and measured < 0.9 * others

    return finding(
        card,
        "straggler",
        "warning",
        past.since(below),
        words,
        step,
        slows=True,
        shows_in=item.same_as,
    )

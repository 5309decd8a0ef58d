"""What is wrong with one card, by its own readings: slowed down, off its normal, on a poor link, or failing."""

from collections.abc import Iterator

from ddwatch.core.gpus import reasons
from ddwatch.core.gpus.past import ENOUGH, CardPast
from ddwatch.core.hardware import GpuCard
from ddwatch.core.hardware_view import Finding, FindingKind, Grade

SHARE = 0.5
"""A clock-event reason counts when it held in this share of the last readings; a flicker does not."""
LINK_SHARE = 0.8
"""A link counts as low when it was in this share of the last readings under load: some flap with the load."""
FEWEST = 3
SLOW_STATE = 5
"""P5 and slower states are for rest; under load a card that stays there is stuck."""
REPLAYS_A_WATCH = 100
"""PCIe transfers that had to be repeated since the watch began, from which they are worth a word."""

LOAD_KINDS: frozenset[FindingKind] = frozenset(
    {
        "thermal",
        "hw-slowdown",
        "power-brake",
        "power-cap",
        "memory-clock",
        "sm-clock",
        "straggler",
        "pcie-link",
    }
)
"""Findings that can only be reached, and only be refuted, while the card is at work."""


def label(card: GpuCard) -> str:
    """How a card is called in a sentence."""
    return f"GPU {card.index}"


def finding(
    card: GpuCard,
    kind: FindingKind,
    grade: Grade,
    since: float,
    sentence: str,
    next_step: str,
    *,
    slows: bool = False,
    shows_in: FindingKind | None = None,
) -> Finding:
    """A finding of one card; its severity follows from its grade."""
    return Finding(
        kind=kind,
        grade=grade,
        severity="ok" if grade == "information" else "notice",
        since=since,
        index=card.index,
        uuid=card.uuid,
        slows=slows,
        sentence=sentence,
        next_step=next_step,
        shows_in=shows_in,
    )


def megahertz(hertz: float) -> str:
    """A clock as operators know it."""
    return f"{hertz / 1e6:.0f} MHz"


def judge(past: CardPast, others: float | None = None) -> Iterator[Finding]:
    """All findings of one card that its newest readings give; not all of them hold for long enough to be told.

    Args:
        past: the card.
        others: SM clock of its peers, where it lies behind them.
    """
    if past.card.lost is not None:
        yield finding(
            past.card,
            "lost",
            "critical",
            past.at,
            f"{label(past.card)} cannot be read: {past.card.lost}",
            "look at dmesg for Xid; a reset of the card or a reboot of the host brings it back",
        )
        return
    yield from _reasons(past, others)
    yield from _clocks(past)
    yield from _link(past)
    yield from _memory(past)
    yield from _nvlink(past)
    action = past.card.recovery_action
    if action not in (None, "none"):
        yield finding(
            past.card,
            "recovery",
            "critical",
            past.at,
            f"the driver asks for a {action} of {label(past.card)}",
            "drain the service from it, then do what the driver asks for (nvidia-smi -q, GPU Recovery Action)",
        )


def _reasons(past: CardPast, others: float | None) -> Iterator[Finding]:
    if past.loaded is False or len(past.recent) < FEWEST:
        return
    masks = [seen.card.reasons for seen in past.recent if seen.card.reasons is not None]
    held = {
        reason.bit
        for reason in reasons.REASONS
        if masks and sum(1 for mask in masks if mask & reason.bit) >= max(SHARE * len(masks), FEWEST)
    }
    for reason in reasons.REASONS:
        if reason.kind is None or reason.bit not in held:
            continue
        if reason.kind == "hw-slowdown" and held & {0x40, 0x80}:
            # The hardware sets this bit together with the one that says why.
            continue
        bit = reason.bit
        first = next((seen.at for seen in past.recent if (seen.card.reasons or 0) & bit), past.at)
        figures = _figures(past, others, power=reason.kind in ("power-cap", "power-brake"))
        yield finding(
            past.card,
            reason.kind,
            reason.grade,
            first,
            f"{label(past.card)} {reason.words}{figures}",
            reason.next_step,
            slows=reason.grade != "information",
        )


def _figures(past: CardPast, others: float | None, *, power: bool) -> str:
    """The numbers behind a slowdown, in brackets; empty when the card reports none."""
    card = past.card
    words = []
    if power and card.power_limit_watts is not None:
        words.append(f"limit {card.power_limit_watts:.0f} W")
    if not power and card.temperature_celsius is not None:
        words.append(f"{card.temperature_celsius:.0f} °C")
    clock = past.under_load(lambda seen: seen.sm_clock_hertz)
    clock = card.sm_clock_hertz if clock is None else clock
    if clock is not None:
        normal = past.sm_clock.value
        beside = f", normally {megahertz(normal)}" if normal is not None else ""
        beside = f", the others {megahertz(others)}" if others is not None else beside
        words.append(f"SM clock {megahertz(clock)}{beside}")
    return f" ({', '.join(words)})" if words else ""


def _clocks(past: CardPast) -> Iterator[Finding]:
    card = past.card
    sm, threshold = past.under_load(lambda seen: seen.sm_clock_hertz), past.sm_clock.threshold()
    normal = past.sm_clock.value
    if sm is not None and threshold is not None and normal is not None and sm < threshold:
        limit = f" of {card.power_limit_watts:.0f} W" if card.power_limit_watts is not None else ""
        held = f", held by its power limit{limit}" if (card.reasons or 0) & reasons.POWER_CAP else ""
        since = past.since(lambda seen: seen.sm_clock_hertz is not None and seen.sm_clock_hertz < threshold)
        yield finding(
            card,
            "sm-clock",
            "warning",
            since,
            f"{label(card)} runs its SMs at {megahertz(sm)} under load, normally {megahertz(normal)}{held}",
            "see what holds the clock back: nvidia-smi -q -d PERFORMANCE,CLOCK,POWER",
            slows=True,
        )
    memory, low = past.under_load(lambda seen: seen.memory_clock_hertz), past.memory_clock.threshold()
    usual = past.memory_clock.value
    if memory is not None and low is not None and usual is not None and memory < low:
        since = past.since(lambda seen: seen.memory_clock_hertz is not None and seen.memory_clock_hertz < low)
        yield finding(
            card,
            "memory-clock",
            "warning",
            since,
            f"{label(card)} runs its memory at {megahertz(memory)} under load, normally {megahertz(usual)}",
            "decoding is bound by memory: see nvidia-smi -q -d PERFORMANCE,CLOCK; a reset of the card may be needed",
            slows=True,
        )
    state = past.under_load(lambda seen: seen.performance_state)
    if state is not None and state >= SLOW_STATE:
        since = past.since(lambda seen: (seen.performance_state or 0) >= SLOW_STATE)
        yield finding(
            card,
            "sm-clock",
            "warning",
            since,
            f"{label(card)} stays in performance state P{state:.0f} under load",
            "clocks are stuck low: nvidia-smi -q -d PERFORMANCE,CLOCK; a reset of the card may be needed",
            slows=True,
        )


def link_low(card: GpuCard) -> bool:
    """Whether a card's PCIe link is below its own maximum."""
    generation = card.pcie_generation is not None and card.pcie_generation_max is not None
    width = card.pcie_width is not None and card.pcie_width_max is not None
    return (generation and (card.pcie_generation or 0) < (card.pcie_generation_max or 0)) or (
        width and (card.pcie_width or 0) < (card.pcie_width_max or 0)
    )


def link_step(card: GpuCard) -> str:
    """What to do about a poor link."""
    place = f"-s {card.pci_bus} " if card.pci_bus is not None else ""
    return f"lspci {place}-vv (LnkSta): check slot, riser and cable; a reboot trains the link anew"


def link_words(generation: int | None, width: int | None) -> str:
    """`Gen5 x16`, as far as it is known."""
    words = [f"Gen{generation}" if generation is not None else "", f"x{width}" if width is not None else ""]
    return " ".join(word for word in words if word)


def _link(past: CardPast) -> Iterator[Finding]:
    card = past.card
    low = [seen for seen in past.busy if link_low(seen.card)]
    if past.loaded and len(past.busy) >= ENOUGH and low and len(low) >= LINK_SHARE * len(past.busy):
        worst = low[-1].card
        yield finding(
            card,
            "pcie-link",
            "warning",
            low[0].at,
            f"{label(card)} has its PCIe link at {link_words(worst.pcie_generation, worst.pcie_width)} under load, "
            f"its maximum is {link_words(worst.pcie_generation_max, worst.pcie_width_max)}",
            link_step(card),
            slows=True,
        )
        return
    before, now = past.first.pcie_replays, card.pcie_replays
    if before is not None and now is not None and now - before >= REPLAYS_A_WATCH:
        yield finding(
            card,
            "pcie-link",
            "warning",
            past.at,
            f"{label(card)} had to repeat {now - before} PCIe transfers since the watch began",
            "signal quality: check slot, riser and cable, and dmesg for AER",
            slows=True,
        )


def _memory(past: CardPast) -> Iterator[Finding]:
    card = past.card
    before, now = past.first.ecc_errors.get("uncorrected"), card.ecc_errors.get("uncorrected")
    if now and before is not None:
        new = now - before
        words = f"{new} more since the watch began" if new > 0 else "none since the watch began"
        yield finding(
            card,
            "ecc",
            "critical" if new > 0 else "warning",
            past.at,
            f"{label(card)} has {now} memory errors that could not be corrected since its driver was loaded, {words}",
            "reset the card when the service can spare it, which replaces the rows; if they come again, exchange it",
        )
    if card.remap_failed:
        yield finding(
            card,
            "remap",
            "critical",
            past.at,
            f"{label(card)} could not replace a faulty memory row",
            "have the card exchanged",
        )
    elif card.remap_pending:
        yield finding(
            card,
            "remap",
            "warning",
            past.at,
            f"{label(card)} waits for a reset to replace a faulty memory row",
            "reset the card when the service can spare it",
        )


def _nvlink(past: CardPast) -> Iterator[Finding]:
    card = past.card
    before, now = past.first.nvlinks_active, card.nvlinks_active
    if before is not None and now is not None and now < before:
        yield finding(
            card,
            "nvlink",
            "critical",
            past.at,
            f"{label(card)} has {now} of {before} NVLinks left",
            "nvidia-smi nvlink -s and -e; look at dmesg for Xid 74; reset the cards on that link",
            slows=True,
        )
        return
    for name in ("recovery", "replay"):
        old, new = past.first.nvlink_errors.get(name), card.nvlink_errors.get(name)
        if old is not None and new is not None and new > old:
            yield finding(
                card,
                "nvlink",
                "warning",
                past.at,
                f"{label(card)} counts {new - old} NVLink {name} errors since the watch began",
                "nvidia-smi nvlink -e; check the bridge or switch",
                slows=True,
            )
            return

"""What a card is said to be, in few words: its state with a sign, what slows it, what failed on it, and its link."""

from collections.abc import Sequence
from statistics import median

from ddwatch.core.hardware_view import Finding, FindingKind, GpuView
from ddwatch.widgets.figures import ABSENT, count, figure
from ddwatch.widgets.rows import Role, Span, clean

ODD = frozenset({"notice", "critical", "lost"})
"""States of a card that somebody should look at."""
SIGNS: dict[str, tuple[str, Role]] = {
    "ok": ("✓", "label"),
    "idle": ("✓", "label"),
    "notice": ("!", "notice"),
    "critical": ("✗", "page"),
    "lost": ("✗", "page"),
    "stale": ("?", "tainted"),
}
"""One sign per state, so that it can be read without colour."""
GRADES: dict[str, tuple[str, Role]] = {
    "critical": ("✗", "page"),
    "warning": ("!", "notice"),
    "information": (" ", "label"),
}
KINDS: dict[FindingKind, str] = {
    "lost": "lost",
    "recovery": "reset due",
    "xid": "Xid",
    "ecc": "ECC errors",
    "remap": "row remap",
    "thermal": "too hot",
    "hw-slowdown": "HW slowdown",
    "power-brake": "power brake",
    "memory-clock": "slow memory",
    "sm-clock": "slow clock",
    "straggler": "straggler",
    "pcie-link": "slow link",
    "nvlink": "NVLink",
    "power-cap": "power cap",
}
"""What is wrong with a card, in a cell of a table."""
REASONS = {
    "hw_thermal_slowdown": "HW thermal",
    "hw_power_brake_slowdown": "power brake",
    "sw_thermal_slowdown": "thermal",
    "hw_slowdown": "HW slowdown",
    "sw_power_cap": "power cap",
    "applications_clocks_setting": "set clocks",
    "sync_boost": "sync boost",
    "display_clock_setting": "display",
}
"""Clock-event reasons, those that take most speed first; resting is a state and no reason to look."""
GIB = float(2**30)


def is_odd(gpu: GpuView) -> bool:
    """Whether somebody should look at this card."""
    return gpu.state in ODD


def notable(gpu: GpuView) -> tuple[Finding, ...]:
    """What is wrong with a card, the most telling first: a reason before the clock that follows from it."""
    found = [finding for finding in gpu.findings if finding.severity == "notice"]
    return tuple(sorted(found, key=lambda each: (GRADE_ORDER.index(each.grade), each.kind == "straggler")))


GRADE_ORDER = ("critical", "warning", "information")


def shown_in(gpu: GpuView) -> dict[FindingKind, Finding]:
    """The quantities in which something is wrong; a straggler's is the one in which it is behind."""
    return {each.shows_in or each.kind: each for each in reversed(notable(gpu))}


def state_word(gpu: GpuView) -> str:
    """What the card is, in a word or two: well, at rest, or what is wrong."""
    if gpu.state in ("ok", "idle", "stale", "lost"):
        return gpu.state
    found = notable(gpu)
    if not found:
        return gpu.state
    if found[0].kind == "xid":
        return f"Xid {grave_xid(gpu)}" if gpu.xids else "Xid"
    return KINDS.get(found[0].kind, found[0].kind)


def grave_xid(gpu: GpuView) -> str:
    """The code that its finding names; the newest counted one otherwise."""
    said = next((each.sentence for each in gpu.findings if each.kind == "xid"), "")
    named = [code for code in gpu.xids if f"Xid {code} " in said]
    return clean((named or list(gpu.xids))[-1])


def state_spans(gpu: GpuView, width: int) -> tuple[Span, ...]:
    """Sign and word in exactly `width` cells."""
    sign, role = SIGNS[gpu.state]
    word: Role = "strong" if is_odd(gpu) else role
    return ((f"{sign} ", role), (f"{state_word(gpu):<{width - 2}}"[: width - 2], word))


def throttle_words(gpu: GpuView, width: int) -> tuple[str, Role]:
    """The reason that takes most speed now, and how many more; `none`, or a dash where reasons are not reported."""
    if gpu.card.reasons is None:
        return ABSENT, "label"
    order = [name for name in REASONS if name in gpu.reasons]
    order += [name for name in gpu.reasons if name not in REASONS and name != "gpu_idle"]
    if order[:1] != ["hw_slowdown"] and any(name.startswith("hw_") for name in order[:1]):
        # The hardware sets this bit together with the one that says why.
        order = [name for name in order if name != "hw_slowdown"]
    if not order:
        return "none", "label"
    more = f" +{len(order) - 1}" if len(order) > 1 else ""
    found = shown_in(gpu)
    graves = [found[kind] for kind in ("thermal", "hw-slowdown", "power-brake") if kind in found]
    role = GRADES[graves[0].grade][1] if graves else "text"
    words = clean(REASONS.get(order[0], order[0]))
    return (words + more if len(words + more) <= width else words[:width]), role


def error_parts(gpu: GpuView) -> list[tuple[str, Role]]:
    """What has gone wrong on the card so far, the gravest first; empty when nothing has."""
    card, found = gpu.card, shown_in(gpu)
    parts: list[tuple[str, Role]] = []

    def add(text: str, kind: FindingKind) -> None:
        """Coloured only where the core holds it against the card."""
        parts.append((text, GRADES[found[kind].grade][1] if kind in found else "text"))

    if gpu.xids:
        code = grave_xid(gpu)
        times = gpu.xids.get(code, 1)
        add(f"Xid {code}" + (f" ×{times}" if times > 1 else ""), "xid")
        parts += [(f"Xid {clean(other)}", "text") for other in gpu.xids if other != code]
    wrong = card.ecc_errors.get("uncorrected")
    if wrong:
        add(f"ECC {count(wrong)}", "ecc")
    if card.remap_failed or card.remap_pending:
        add("remap", "remap")
    if card.recovery_action not in (None, "none"):
        add("reset due", "recovery")
    if card.nvlinks and card.nvlinks_active is not None and card.nvlinks_active < card.nvlinks:
        add(f"NVLink {card.nvlinks_active}/{card.nvlinks}", "nvlink")
    if card.pcie_replays:
        parts.append((f"{count(card.pcie_replays)} replays", "text" if "pcie-link" not in found else "notice"))
    parts.sort(key=lambda part: ("page", "notice", "text").index(part[1]))
    return parts


def error_words(gpu: GpuView, width: int) -> tuple[str, Role]:
    """As much of it as fits; `none`, or a dash where no counter is reported at all."""
    parts = error_parts(gpu)
    card = gpu.card
    if not parts:
        counted = (card.ecc_errors, card.pcie_replays is not None, card.remap_pending is not None, card.nvlinks)
        return ("none" if any(counted) else ABSENT), "label"
    words = parts[0][0]
    for place, (text, _) in enumerate(parts[1:], 1):
        more = len(parts) - place - 1
        longer = f"{words}, {text}"
        if len(longer) + (len(f" +{more}") if more else 0) > width:
            words += f" +{len(parts) - place}"
            break
        words = longer
    return words[:width], parts[0][1]


def link_text(gpu: GpuView) -> str:
    """`x16 G5`; where it is below its own maximum that stands beside it: `x8/16 G1/5`."""
    card = gpu.card
    if card.pcie_generation is None and card.pcie_width is None:
        return ABSENT
    generation, width = card.pcie_generation, card.pcie_width
    speed = ABSENT if generation is None else f"G{generation}"
    if generation is not None and card.pcie_generation_max is not None and generation < card.pcie_generation_max:
        speed += f"/{card.pcie_generation_max}"
    lanes = ABSENT if width is None else f"x{width}"
    if width is not None and card.pcie_width_max is not None and width < card.pcie_width_max:
        lanes += f"/{card.pcie_width_max}"
    return f"{lanes:<3} {speed}"


def of_all(used: float | None, most: float | None, places: int = 0) -> str:
    """`412/600`, as wide as the second part asks for; that is left out where it is not reported."""
    if used is None:
        return ABSENT
    if most is None:
        return f"{used:.{places}f}"
    limit = f"{most:.{places}f}"
    return f"{used:>{len(limit)}.{places}f}/{limit}"


def gibibytes(octets: float | None) -> float | None:
    """Bytes as operators of cards count them."""
    return None if octets is None else octets / GIB


def gigahertz(hertz: float | None) -> str:
    """A clock without its unit."""
    return figure(None if hertz is None else hertz / 1e9)


def middle(gpus: Sequence[GpuView], attribute: str) -> float | None:
    """The median of a reading over cards; None where none reports it."""
    values = [value for gpu in gpus if (value := getattr(gpu.card, attribute)) is not None]
    return median(values) if values else None


CLOCKED: tuple[tuple[FindingKind, str, str], ...] = (
    ("memory-clock", "memory_clock_hertz", "GHz memory"),
    ("sm-clock", "sm_clock_hertz", "GHz"),
    ("thermal", "sm_clock_hertz", "GHz"),
    ("hw-slowdown", "sm_clock_hertz", "GHz"),
    ("power-brake", "sm_clock_hertz", "GHz"),
)
"""Findings that show in a clock, and which."""


def odd_words(gpu: GpuView, gpus: Sequence[GpuView]) -> str:
    """`GPU 5 too hot, 1.62 GHz, others 2.41, 88 °C`: which card, what it has, and how far it is from the others."""
    card, found = gpu.card, shown_in(gpu)
    errors = ", ".join(text for text, _ in error_parts(gpu)[:3])
    if gpu.state == "lost":
        return f"GPU {card.index} lost{f' ({errors})' if errors else ''}: {clean(card.lost or 'it cannot be read')}"
    words = f"GPU {card.index} {state_word(gpu)}"
    for kind, attribute, unit in CLOCKED:
        value = getattr(card, attribute)
        if kind in found and value is not None:
            beside = middle([each for each in gpus if each is not gpu and not is_odd(each)], attribute)
            theirs = f", others {gigahertz(beside)}" if beside is not None else ""
            heat = card.temperature_celsius if "thermal" in found else None
            return f"{words}, {gigahertz(value)} {unit}{theirs}" + (f", {heat:.0f} °C" if heat is not None else "")
    if "pcie-link" in found:
        return f"{words}, PCIe {' '.join(link_text(gpu).split())}"
    return f"GPU {card.index}: {errors}" if errors else words


GRAVITY = ("lost", "critical", "notice", "stale", "ok", "idle")


def gravity(gpu: GpuView) -> tuple[int, int]:
    """Sorts cards: the gravest first, then by number."""
    return GRAVITY.index(gpu.state), gpu.card.index


def gravest(gpus: Sequence[GpuView]) -> GpuView | None:
    """The card that needs somebody most; None while all are well."""
    return min((gpu for gpu in gpus if is_odd(gpu)), key=gravity, default=None)


def normal_words(gpus: Sequence[GpuView]) -> str:
    """How many of the cards are as they should be: `8 of 8 normal`, `8 idle`, `8 not read`."""
    if all(gpu.state == "stale" for gpu in gpus):
        return f"{len(gpus)} not read"
    if all(gpu.state == "idle" for gpu in gpus):
        return f"{len(gpus)} idle"
    return f"{sum(1 for gpu in gpus if gpu.state in ('ok', 'idle'))} of {len(gpus)} normal"

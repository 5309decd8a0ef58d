"""Folds readings of cards and host into views and findings, and puts what begins and ends on the timeline."""

from collections.abc import Iterable, Mapping
from statistics import median

from msgspec.structs import replace

from ddwatch.core.durations import in_words
from ddwatch.core.gpus import reasons, xids
from ddwatch.core.gpus.held import Held, Key, in_order
from ddwatch.core.gpus.host import HOST, HostPast
from ddwatch.core.gpus.judging import LOAD_KINDS, finding, judge, label
from ddwatch.core.gpus.past import CardPast
from ddwatch.core.gpus.stragglers import compared, stragglers
from ddwatch.core.hardware import CARDS_AT_MOST, GpuCard, GpuReading, HostProcess, HostReading
from ddwatch.core.hardware_view import Finding, FindingKind, GpuState, GpuView, HostView
from ddwatch.core.history import EventLog
from ddwatch.core.records import Xid
from ddwatch.core.snapshot import EventKind

STALE_SECONDS = 15.0
STALE_READINGS = 5.0
"""Readings that may be missed before the cards count as unread; whichever is longer."""
XID_SECONDS = 600.0
"""How long a grave fault of the driver is held against its card."""
COPY_SECONDS = 10.0
"""NVML and the kernel log tell the same fault within this time."""
XIDS_AT_MOST = 64
"""Different codes that are counted per card."""
REPEATED_SECONDS = 300.0
"""A condition that comes and goes within this time is counted on one line."""
BY_REASON: tuple[FindingKind, ...] = ("thermal", "hw-slowdown", "power-brake")
"""Findings that already say why a clock is low."""
FATAL: dict[FindingKind, int] = {"xid": 0, "lost": 1, "recovery": 2, "ecc": 3}
"""Findings that can end an engine, in the order of how much they say."""


class GpuBook:
    """The cards and the host of one watch."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._pasts: dict[str, CardPast] = {}
        self._host = HostPast()
        self._held = Held()
        self._comparable: frozenset[str] = frozenset()
        self._processes: dict[int, HostProcess] = {}
        self._read_at: float | None = None
        self._cadence = 1.0
        self._xids: dict[str, dict[str, int]] = {}
        self._xid_at: dict[tuple[str, int], float] = {}
        self._grave: dict[str, tuple[float, int]] = {}
        self._views: tuple[GpuView, ...] = ()

    def see(self, reading: GpuReading | HostReading) -> None:
        """Takes the next reading; readings of one source come in order."""
        before = self._held.keys()
        old = {key: self._held.get(key) for key in before}
        if isinstance(reading, GpuReading):
            self._see_cards(reading)
        else:
            self._see_host(reading)
        self._tell(reading.at, before, old)

    def xid(self, record: Xid) -> str | None:
        """Takes a fault that the driver reported; a copy of it by another witness counts once.

        Returns how its card is called, None while no card is known at its address.
        """
        owner = self._owner_of_bus(record.pci_bus)
        self._count_xid(record, owner)
        past = self._pasts.get(owner)
        return label(past.card) if past is not None else None

    def _count_xid(self, record: Xid, owner: str) -> None:
        code = xids.FALLEN if record.code is None else record.code
        last = self._xid_at.get((owner, code))
        self._xid_at[owner, code] = record.at
        if owner not in self._xids and len(self._xids) >= 2 * CARDS_AT_MOST:
            # More addresses than any host has cards: made up by whoever wrote that log.
            return
        counts = self._xids.setdefault(owner, {})
        if str(code) not in counts and len(counts) >= XIDS_AT_MOST:
            return
        if last is None or abs(record.at - last) > COPY_SECONDS:
            counts[str(code)] = counts.get(str(code), 0) + 1
        if len(self._xid_at) > XIDS_AT_MOST:
            self._xid_at.pop(next(iter(self._xid_at)))
        if xids.grade(code) != "information" and record.previous_code is None:
            self._grave[owner] = (record.at, code)
        self._renew(None)

    def views(self, now: float) -> tuple[GpuView, ...]:
        """All cards in the order of their numbers."""
        if self._stale(now):
            return tuple(replace(view, state="stale", outlier=None, findings=()) for view in self._views)
        return self._views

    def host(self, now: float) -> HostView | None:
        """The host, None before its first reading."""
        reading = self._host.reading
        return None if reading is None else HostView(reading=reading, findings=self._held.of(HOST))

    def findings(self, now: float) -> tuple[Finding, ...]:
        """Everything that holds of cards and host, gravest first; a card that is not read any more has only its Xid."""
        grave = [fault for owner in self._grave if (fault := self._grave_fault(owner, now)) is not None]
        cards = () if self._stale(now) else (f for key in self._pasts for f in self._held.of(key) if f.kind != "xid")
        return in_order([*grave, *cards, *self._held.of(HOST)])

    def fatal(self, now: float) -> tuple[Finding, ...]:
        """What an engine does not survive, one per card: a fault that the driver reported says most."""
        found: dict[str | int | None, Finding] = {}
        for item in sorted(self.findings(now), key=lambda item: FATAL.get(item.kind, 0)):
            if item.kind in FATAL and item.grade != "information":
                found.setdefault(item.uuid or item.index, item)
        return tuple(sorted(found.values(), key=lambda item: item.since))

    def _see_cards(self, reading: GpuReading) -> None:
        at = reading.at
        if self._read_at is not None and at > self._read_at:
            self._cadence += 0.2 * (min(at - self._read_at, 60.0) - self._cadence)
        self._read_at = at
        present = {card.uuid for card in reading.cards}
        seen: set[str] = set()
        for card in reading.cards:
            key = self._key(card, present)
            seen.add(key)
            past = self._pasts.get(key)
            if past is not None:
                past.see(at, card)
            elif len(self._pasts) < CARDS_AT_MOST:
                self._pasts[key] = CardPast(at, card)
                self._adopt(key, card)
        for key, past in self._pasts.items():
            if key not in seen:
                past.see(at, _gone(past.card))
        self._judge(at)
        self._renew(at)

    def _judge(self, at: float) -> None:
        engine = {key: past for key, past in self._pasts.items() if self._rank(past.card) is not None}
        group = engine if len(engine) > 2 else self._pasts
        self._comparable = compared(group)
        slow = stragglers(group)
        for key, past in self._pasts.items():
            straggler = slow.get(key)
            clock = straggler.others if straggler is not None and straggler.same_as == "sm-clock" else None
            found = {finding.kind: finding for finding in judge(past, clock)}
            explained = any(kind in found for kind in BY_REASON)
            if straggler is not None:
                # A clock that is low for a known reason is one cause, not two.
                slows = clock is None or not explained
                found["straggler"] = replace(straggler.finding, slows=slows)
                found.pop(straggler.same_as, None)
            if explained:
                found.pop("sm-clock", None)
            fault = self._grave_fault(key, at)
            if fault is not None:
                found["xid"] = fault
            unjudged = frozenset[FindingKind]() if past.loaded else LOAD_KINDS
            self._held.see(at, key, found, unjudged)
            if all(item.grade == "information" for item in self._held.of(key)):
                past.learn()

    def _see_host(self, reading: HostReading) -> None:
        self._processes = {process.pid: process for process in reading.processes}
        cards = [past.card for past in self._pasts.values()]
        engine = [card for card in cards if self._rank(card) is not None] or cards
        ratios = [card.utilization_ratio for card in engine if card.utilization_ratio is not None]
        self._host.see(reading, median(ratios) if ratios else None)
        self._held.see(reading.at, HOST, self._host.judge(), frozenset())

    def _tell(self, at: float, before: frozenset[Key], old: Mapping[Key, Finding | None]) -> None:
        """Puts what has begun or ended on the timeline; several cards at once are one event."""
        after = self._held.keys()
        begun: dict[FindingKind, list[Finding]] = {}
        for key in sorted(after - before):
            item = self._held.get(key)
            explained = key[1] == "straggler" and any((key[0], kind) in after for kind in BY_REASON)
            if item is not None and item.severity == "notice" and item.kind != "xid" and not explained:
                begun.setdefault(item.kind, []).append(item)
        for kind, items in begun.items():
            items.sort(key=lambda item: -1 if item.index is None else item.index)
            owner = ",".join(str(item.index) for item in items)
            self._events.incident(
                f"gpu {kind} {owner}", at, _event(items[0]), "notice", _together(items), joined=REPEATED_SECONDS
            )
        for key in sorted(before - after):
            item = old[key]
            if item is not None and item.severity == "notice" and item.kind not in ("xid", "ecc"):
                text = f"over after {in_words(max(0.0, at - item.since))}: {item.sentence}"
                self._events.incident(f"gpu over {key}", at, _event(item), "ok", text, joined=REPEATED_SECONDS)

    def _renew(self, at: float | None) -> None:
        """Writes the views anew."""
        views = [self._view(key, past) for key, past in self._pasts.items()]
        self._views = tuple(sorted(views, key=lambda view: (view.card.index, view.card.uuid or "")))

    def _view(self, key: str, past: CardPast) -> GpuView:
        card, found = past.card, self._held.of(key)
        straggler = self._held.get((key, "straggler"))
        outlier = None if key not in self._comparable and straggler is None else straggler is not None
        mine = [process for process in card.processes if process.pid in self._processes]
        memory = [process.memory_bytes for process in mine if process.memory_bytes is not None]
        return GpuView(
            card=card,
            at=past.at,
            state=_state(past, found),
            loaded=past.loaded,
            rank=self._rank(card),
            rank_memory_bytes=sum(memory) if memory else None,
            normal_sm_clock_hertz=past.sm_clock.value,
            normal_memory_clock_hertz=past.memory_clock.value,
            reasons=reasons.names(card.reasons),
            outlier=outlier,
            outlier_sentence=straggler.sentence if straggler else None,
            xids=dict(self._xids.get(key, {})),
            trend=past.trend(),
            findings=found,
        )

    def _rank(self, card: GpuCard) -> str | None:
        """The engine's rank on a card; None where its processes cannot be told (another container, no host source)."""
        for process in card.processes:
            known = self._processes.get(process.pid)
            if known is not None:
                return known.rank or known.role
        return None

    def _key(self, card: GpuCard, present: Iterable[str | None]) -> str:
        if card.uuid is not None:
            return card.uuid
        for key, past in self._pasts.items():
            if past.card.index == card.index and past.card.uuid not in (None, *present):
                return key
        return f"index {card.index}"

    def _owner_of_bus(self, bus: str | None) -> str:
        """The card at an address; the address itself while no card there is known."""
        if bus is None:
            return HOST
        wanted = _slot(bus)
        return next((key for key, past in self._pasts.items() if _slot(past.card.pci_bus) == wanted), wanted)

    def _adopt(self, key: str, card: GpuCard) -> None:
        """Gives a card the faults that were told of its address before the card was known."""
        slot = _slot(card.pci_bus)
        if slot in self._xids and slot != key:
            self._xids[key] = self._xids.pop(slot)
        if slot in self._grave and slot != key:
            self._grave[key] = self._grave.pop(slot)

    def _grave_fault(self, owner: str, now: float) -> Finding | None:
        """The newest grave fault of a card, or of an address without one, while it is held against it."""
        at, code = self._grave.get(owner, (-XID_SECONDS, 0))
        if now - at > XID_SECONDS:
            return None
        past = self._pasts.get(owner)
        told = xids.meaning(code)
        place = label(past.card) if past else "a GPU" if owner == HOST else owner
        words = f"Xid {code} on {place}" + (f": {told.words}" if told.words else "")
        card = past.card if past else GpuCard(index=-1)
        fault = finding(card, "xid", xids.grade(code), at, words, told.next_step, slows=code == xids.NVLINK)
        return fault if past else replace(fault, index=None)

    def _stale(self, now: float) -> bool:
        at = self._read_at
        return at is None or now - at > max(STALE_SECONDS, STALE_READINGS * self._cadence)


def _slot(bus: str | None) -> str:
    """A PCI address without its function, as the kernel log names cards; empty when not known."""
    if bus is None:
        return ""
    return bus.lower().rpartition(".")[0] or bus.lower()


def _gone(card: GpuCard) -> GpuCard:
    """What is left of a card that the driver does not list any more."""
    return GpuCard(
        index=card.index,
        uuid=card.uuid,
        pci_bus=card.pci_bus,
        name=card.name,
        numa_node=card.numa_node,
        lost=card.lost or "the driver does not list it any more",
    )


def _state(past: CardPast, found: tuple[Finding, ...]) -> GpuState:
    if past.card.lost is not None:
        return "lost"
    if any(item.grade == "critical" for item in found):
        return "critical"
    if any(item.grade == "warning" for item in found):
        return "notice"
    return "idle" if past.resting else "ok"


def _event(item: Finding) -> EventKind:
    return "host" if item.index is None else "gpu"


def _together(items: list[Finding]) -> str:
    """One sentence for what began on several cards at once."""
    if len(items) == 1:
        return items[0].sentence
    others = ", ".join(str(item.index) for item in items[1:])
    return f"{items[0].sentence}; the same on GPU {others}"

"""The life of the watched server as its own lines tell it: start, arguments, ready, trouble, stop."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from ddwatch.core.arguments import UNSET, changes
from ddwatch.core.durations import in_words
from ddwatch.core.gpus.xids import meaning
from ddwatch.core.history import EventLog
from ddwatch.core.records import (
    Crash,
    GraphSizes,
    JitCompile,
    LoadProgress,
    LogRecord,
    PoolSized,
    Retraction,
    ServerInfo,
    ServerReady,
    ServerStart,
    ServerStop,
    SpeculationSetup,
    Xid,
)
from ddwatch.core.snapshot import ServerView

REPEATED_START_SECONDS = 60.0
"""A second announcement of equal arguments while loading is the same start."""
CRASH_SECONDS = 120.0
"""Signs of a dying engine within this time are one incident."""
COPIES_SECONDS = 3.0
"""Equal lines of several ranks come within this time."""
COUNTED_SECONDS = 300.0
"""Repeated trouble within this time is counted on one line."""
WORDS_SHOWN = 6
"""Changed arguments named in an event; the rest is a number."""


Arguments = Mapping[str, str | int | float | bool | None]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _address(arguments: Arguments) -> str | None:
    port = _whole(arguments.get("port"))
    return None if port is None else f"{_text(arguments.get('host')) or '127.0.0.1'}:{port}"


class Lifecycle:
    """Folds the server's own announcements into one view, and tells the events."""

    def __init__(self, events: EventLog, fault: Callable[[Xid], str | None] | None = None) -> None:
        """Prepares to follow.

        Args:
            events: where what happens is told.
            fault: who else is told of the driver's faults; says how the card is called, None where it is not known.
        """
        self._events = events
        self._fault = fault
        self._start: ServerStart | None = None
        self._seen_before = False
        self._crash: Crash | None = None
        self._gpus: tuple[str, ...] = ()
        self._version: tuple[float, str] | None = None
        """Version by the server's own port, and when it was told."""
        self.retracted_at: float | None = None
        """Newest KV retraction."""
        self.changed_arguments: str | None = None
        """What the last restart changed, in words; None when it changed nothing or there was none."""
        self.view = ServerView()

    @property
    def crash_reason(self) -> str | None:
        """What killed the server, where its lines say so."""
        return self._crash.reason or self._crash.kind if self._crash else None

    def traffic(self) -> None:
        """A batch line came: whatever was said before, the server runs."""
        self._seen_before = True
        if self.view.state in ("crashed", "stopped"):
            self.view = replace(self.view, state="unknown")
            self._crash = None

    def see(self, record: LogRecord) -> None:
        """Takes a record that is about the server itself; others are ignored."""
        match record:
            case ServerStart():
                self._started(record)
            case LoadProgress():
                self._loading(record)
            case GraphSizes(sizes=sizes):
                self.view = replace(self.view, graph_sizes=tuple(sorted(set(self.view.graph_sizes) | set(sizes))))
            case PoolSized():
                self._sized(record)
            case ServerReady(at=at):
                self._ready(at)
            case ServerStop(at=at):
                if self.view.state != "stopped":
                    self._events.incident("stop", at, "stop", "ok", "the server is stopping on request")
                self.view = replace(self.view, state="stopped")
            case SpeculationSetup():
                self._speculation(record)
            case Retraction():
                self._retracted(record)
            case Crash():
                self._crashed(record)
            case JitCompile(at=at, what=what):
                text = f"compiling kernels while it runs ({what}): warming"
                self._events.incident("jit", at, "jit", "ok", text, within=COUNTED_SECONDS)
            case Xid():
                self._xid(record)
            case _:
                pass

    def info(self, record: ServerInfo) -> None:
        """Takes the setup in force as the server's own port tells it.

        The log may have been read from the middle: what it did not say is filled in. Arguments that differ from
        those known are a restart that the log did not show.
        """
        known = self._start
        start = ServerStart(at=record.at, arguments=record.arguments, withheld=record.withheld)
        if known is None:
            self._start = start
            self.view = self._described(self.view, record.arguments)
        elif self.view.state != "starting":
            both = known.arguments.keys() & record.arguments.keys()
            if any(known.arguments[name] != record.arguments[name] for name in both):
                self._started(start)
                self.view = replace(self.view, state="ready")
        if record.version is not None:
            self._version = (record.at, record.version)
            self.view = replace(self.view, version=record.version)

    def gpus(self, names: tuple[str, ...]) -> None:
        """Takes the names of this host's GPUs."""
        self._gpus = names
        kinds = " + ".join(dict.fromkeys(names))
        self.view = replace(self.view, gpu_name=kinds or None, gpu_count=len(names) or None)

    def _started(self, record: ServerStart) -> None:
        before = self._start
        view = self.view
        repeated = (
            before is not None
            and view.state == "starting"
            and before.rank.engine == record.rank.engine
            and record.at - before.at < REPEATED_START_SECONDS
            and (before.arguments, before.withheld) == (record.arguments, record.withheld)
        )
        if repeated:
            return
        restarted = self._seen_before
        self._begin(record.at, restarted)
        self.view = self._described(self.view, record.arguments)
        self._start = record
        if not restarted:
            self._events.add(record.at, "start", "ok", f"server start: {self.view.model or 'model not named'}")
            return
        words = "its arguments before were not seen" if before is None else self._changed(before, record)
        self._events.add(record.at, "restart", "ok", f"restart: {words}")

    @staticmethod
    def _described(view: ServerView, arguments: Arguments) -> ServerView:
        return replace(
            view,
            model=_text(arguments.get("served_model_name")) or _text(arguments.get("model_path")),
            algorithm=_text(arguments.get("speculative_algorithm")),
            tree_budget=next((_whole(v) for k, v in arguments.items() if k.endswith("tree_budget")), None),
            block_size=next((_whole(v) for k, v in arguments.items() if k.endswith("block_size")), None),
            tp=_whole(arguments.get("tp_size")),
            dp=_whole(arguments.get("dp_size")),
            pp=_whole(arguments.get("pp_size")),
            ep=_whole(arguments.get("ep_size")),
            version=_text(arguments.get("version")) or view.version,
            address=_address(arguments),
            context_limit=_whole(arguments.get("context_length")),
            decode_log_interval=_whole(arguments.get("decode_log_interval")),
            arguments={name: value for name, value in arguments.items() if value not in UNSET},
        )

    def _changed(self, before: ServerStart, after: ServerStart) -> str:
        words = changes(before, after)
        self.changed_arguments = ", ".join(words[:WORDS_SHOWN]) or None
        if not words:
            return "same arguments"
        more = f" and {len(words) - WORDS_SHOWN} more" if len(words) > WORDS_SHOWN else ""
        return ", ".join(words[:WORDS_SHOWN]) + more

    def _begin(self, at: float, restarted: bool) -> None:
        self.view = ServerView(state="starting", started_at=at, restarts=self.view.restarts + (1 if restarted else 0))
        self._crash = None
        self._seen_before = True
        if self._gpus:
            self.gpus(self._gpus)
        if self._version is not None and self._version[0] >= at:
            # The port was asked before the log's past was read to this start.
            self.view = replace(self.view, version=self._version[1])

    def _loading(self, record: LoadProgress) -> None:
        view = self.view
        if record.phase == "weights-begin" and view.state != "starting":
            restarted = self._seen_before
            self._begin(record.at, restarted)
            kept = view.arguments
            self.view = replace(self.view, model=view.model, algorithm=view.algorithm, arguments=kept)
            if restarted:
                self._events.add(record.at, "restart", "ok", "restart: loading weights, its arguments were not seen")
            else:
                self._events.add(record.at, "start", "ok", "server start: loading weights")
        if record.model_type and self.view.model is None:
            self.view = replace(self.view, model=record.model_type)

    def _sized(self, record: PoolSized) -> None:
        view = self.view
        self.view = replace(
            view,
            max_total_tokens=record.max_total_tokens or view.max_total_tokens,
            context_limit=record.context_limit or view.context_limit,
        )

    def _ready(self, at: float) -> None:
        view = self.view
        if view.state == "ready":
            return
        took = f" after {in_words(at - view.started_at)}" if view.started_at is not None else ""
        self.view = replace(view, state="ready", ready_at=at)
        self._seen_before = True
        self._events.add(at, "ready", "ok", f"ready{took}")

    def _speculation(self, record: SpeculationSetup) -> None:
        view = self.view
        self.view = replace(
            view,
            algorithm=view.algorithm or record.algorithm,
            block_size=record.block_size or view.block_size,
            tree_budget=record.tree_budget or view.tree_budget,
        )
        if record.warning:
            self._events.incident(f"speculation {record.warning}", record.at, "speculation", "notice", record.warning)

    def _retracted(self, record: Retraction) -> None:
        self.retracted_at = record.at
        many = record.requests
        sent_back = "requests" if many is None else f"{many} request{'s' if many != 1 else ''}"
        self._events.incident(
            "retract",
            record.at,
            "retract",
            "notice",
            f"KV pool full: {sent_back} sent back to the queue",
            within=COPIES_SECONDS,
            joined=COUNTED_SECONDS,
        )

    def _crashed(self, record: Crash) -> None:
        if self._crash is None or (record.reason and not self._crash.reason):
            self._crash = record
        self.view = replace(self.view, state="crashed")
        self._events.incident(
            f"crash of the start at {self.view.started_at}",
            record.at,
            "crash",
            "page",
            f"the engine crashed: {self.crash_reason}",
            within=CRASH_SECONDS,
            reword=True,
        )

    def _xid(self, record: Xid) -> None:
        known = self._fault(record) if self._fault is not None else None
        card = f" on {record.pci_bus}" if record.pci_bus else ""
        card += f" ({known})" if known is not None else ""
        if record.code is None:
            text = f"a GPU{card} has fallen off the bus"
        elif record.previous_code is not None:
            text = f"Xid {record.code}{card}, a consequence of Xid {record.previous_code}"
        else:
            words = meaning(record.code).words
            text = f"Xid {record.code}{card}" + (f": {words}" if words else "")
        key = f"xid {record.code} {record.previous_code} {record.pci_bus}"
        self._events.incident(key, record.at, "xid", "notice", text, joined=COUNTED_SECONDS)

"""The log of one container: what `docker logs` (or `podman logs`) prints, joined across restarts by its time stamps."""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ddwatch.core.records import Gap
from ddwatch_sidecar.sources.child import Pipe, ending
from ddwatch_sidecar.sources.child_lines import Moment, Trouble
from ddwatch_sidecar.sources.complaint import Complaint
from ddwatch_sidecar.sources.contract import Item, Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT
from ddwatch_sidecar.sources.stamped import Seam, Stamp, Stamps, handed_on, newest

PROGRAMS = ("docker", "podman")
"""The first that is there is used; both print the same."""
LONGEST = LINE_LIMIT + 4096
"""Bytes of one printed line: a long one carries a stamp for each of its pieces."""
MEAN_LINE_BYTES = 200
HEAD_BYTES = 1024 * 1024
"""How much is read of the beginning of the container's present run, where the server's arguments stand."""
LOOK_SECONDS = 5.0
"""How long a daemon may take to tell of a container."""
STOPPED_SECONDS = 5.0
"""Longest pause between two looks at a container that is stopped or not there."""
NEVER = "0002"
"""A container that was never started began in the year one."""
SHORTEST_PIECE = 4096
"""A line is stored in pieces of 8 KiB (podman) or 16 KiB (docker), never of less."""
INSERTED = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:\d\d) ")
"""The stamp before each further piece of a line."""


class State(msgspec.Struct):
    """What is looked at of a container's state."""

    status: str = msgspec.field(default="", name="Status")
    began: str = msgspec.field(default="", name="StartedAt")
    exit_code: int = msgspec.field(default=0, name="ExitCode")
    out_of_memory: bool = msgspec.field(default=False, name="OOMKilled")


DECODER = msgspec.json.Decoder(State)


class Container:
    """See `Dialect`.

    Each reading begins with a look at the container, which tells one that is stopped from one that is not there, and a
    new one of the same name from a restart. The first reading then takes the beginning of its present run; all follow.
    """

    longest = LONGEST
    pipes: frozenset[Pipe] = frozenset({"out", "err"})
    stands: Trouble | None = None

    def __init__(
        self,
        container: str,
        *,
        name: str,
        catch_up_bytes: int = 16 * 1024 * 1024,
        head_bytes: int = HEAD_BYTES,
        which: Callable[[str], str | None] = shutil.which,
    ) -> None:
        self._container = container
        self._name = name
        self._tail = catch_up_bytes // MEAN_LINE_BYTES
        self._head_bytes = head_bytes
        self._which = which
        self._program = PROGRAMS[0]
        self._stage = "look"
        self._state: State | None = None
        self._id = ""
        self._ended_run: tuple[str, str] | None = None
        """The run (container, start) that was read to its end."""
        self._stamps = Stamps()
        self._seams: Mapping[str, Seam] = {}
        self._forget()
        self.subject = f"the log of container {container}"

    def _forget(self) -> None:
        self._seams = {"out": Seam(), "err": Seam()}
        self._head_left = self._head_bytes
        self._head = self._tail > 0
        """Whether the beginning is still to be read."""
        self._skipping = False
        """Whether the middle, between the beginning and the end, is left out."""
        self._witness: str | None = None
        """The stream whose last line must stand in this reading too, until that is known."""

    @property
    def _last(self) -> Stamp | None:
        return newest([seam.last for seam in self._seams.values()])

    def words(self) -> Sequence[str]:
        """See `Dialect`."""
        if self._stage == "look":
            self._program = next((program for program in PROGRAMS if self._which(program) is not None), PROGRAMS[0])
            return [self._program, "container", "inspect", "--format", "{{.Id}} {{json .State}}", self._container]
        words = [self._program, "logs", "--timestamps"]
        last = self._last
        if self._stage == "head":
            assert self._state is not None
            return [*words, "--since", self._state.began, self._id]
        for pipe, seam in self._seams.items():
            seam.again()
            if last is not None and seam.last == last:
                self._witness = pipe
        if last is None or self._skipping:
            return [*words, "--follow", "--tail", str(self._tail), self._id]
        # The whole second, so that its lines tell where reading stopped.
        since = Stamp(last.seconds, 0).printed().decode()
        return [*words, "--follow", "--since", since, self._id]

    def out(self, line: Line, moment: Moment) -> list[Item]:
        """See `Dialect`."""
        if self._stage == "look":
            self._read_state(line.data)
            return []
        found = self._stored("out", line, moment)
        return [line] if found is None else found

    def err(self, line: Line, moment: Moment) -> list[Item] | None:
        """See `Dialect`: what the container wrote has a stamp, what docker itself says has none."""
        return None if self._stage == "look" else self._stored("err", line, moment)

    def _read_state(self, data: bytes) -> None:
        name, _, state = data.partition(b" ")
        try:
            self._state = DECODER.decode(state)
        except (msgspec.MsgspecError, ValueError):
            return
        if self._id and self._id != name.decode("ascii", "replace"):
            self._forget()
        self._id = name.decode("ascii", "replace")

    def _stored(self, pipe: str, line: Line, moment: Moment) -> list[Item] | None:
        split = self._stamps.split(line.data)
        if split is None:
            return None
        if self.enough():
            return []
        stamp, text = split
        if len(text) > SHORTEST_PIECE:
            text = text[:SHORTEST_PIECE] + INSERTED.sub(b"", text[SHORTEST_PIECE:])
        seam = self._seams[pipe]
        if not seam.passes(stamp, text):
            return []
        items = self._check(moment) if pipe == self._witness else []
        if self._stage == "head":
            self._head_left -= len(text) + 1
            self._skipping = self._head_left <= 0
        live = self._stage == "follow" and moment.live(stamp.epoch)
        items.append(handed_on(text.removesuffix(b"\r"), stamp, live=live, whole=line.whole))
        return items

    def _check(self, moment: Moment) -> list[Item]:
        """With the first new line of the stream that spoke last: whether the reading joins on."""
        torn = self._seams[str(self._witness)].torn
        self._witness = None
        skipping, self._skipping = self._skipping, False
        if not torn:
            return []
        if skipping:
            detail = f"the middle of {self.subject} was skipped: it was large when first read"
            return [Gap(at=moment.now, source=self._name, reason="skipped", detail=detail)]
        detail = f"{self.subject} was rotated away before it was read on; lines in between may be missing"
        return [Gap(at=moment.now, source=self._name, reason="rotated", detail=detail)]

    def polled(self, size: int, moment: Moment) -> list[Item]:
        """See `Dialect`."""
        return []

    def enough(self) -> bool:
        """See `Dialect`."""
        return self._stage == "head" and self._skipping

    def silent(self, seconds: float, complaint: Complaint) -> Trouble | bool:
        """See `Dialect`."""
        if self._stage == "look" and seconds >= LOOK_SECONDS:
            return self._mute()
        return self._stage == "follow"

    def _mute(self) -> Trouble:
        program = self._program
        return Trouble(f"the {program} daemon does not answer: `systemctl status {program}`", most_seconds=10.0)

    def ended(self, status: int | None, complaint: Complaint, moment: Moment) -> tuple[list[Item], Trouble | None]:
        """See `Dialect`."""
        stage, self._stage = self._stage, "look"
        if stage == "look":
            if self._state is None or status != 0:
                return [], self._refused(status, complaint)
            return [], self._looked(self._state)
        if stage == "head":
            self._head = False
            self._stage = "follow"
            return [], None
        if status == 0:
            # It was read to its end, which the next look explains.
            state = self._state
            if state is not None:
                self._ended_run = (self._id, state.began)
            return [], None
        return [], self._refused(status, complaint)

    def _looked(self, state: State) -> Trouble | None:
        """Chooses the next reading; what keeps from it instead."""
        running = state.status in ("running", "paused")
        if not running and self._ended_run == (self._id, state.began):
            memory = ", out of memory" if state.out_of_memory else ""
            words = f"container {self._container} is not running ({state.status or 'unknown'}, exit code"
            reason = f"{words} {state.exit_code}{memory}): `{self._program} start {self._container}`"
            return Trouble(reason, gone=state.status != "created", most_seconds=STOPPED_SECONDS)
        if running and self._ended_run == (self._id, state.began):
            self._ended_run = None
            return Trouble(f"{self._program} logs ended although container {self._container} runs; it is tried again")
        self._stage = "head" if self._head and state.began > NEVER else "follow"
        return None

    def _refused(self, status: int | None, complaint: Complaint) -> Trouble:
        program, container = self._program, self._container
        if complaint.says("no such container", "no such object", "no container with name"):
            reason = f"there is no container {container} (yet): `{program} ps -a` lists them"
            known = self._id != ""
            return Trouble(reason, waiting=not known, gone=known, most_seconds=STOPPED_SECONDS)
        if complaint.says("permission denied"):
            reason = f"{program} may not be used by this user: add it to the group docker (which is as good as root)"
            return Trouble(reason)
        if complaint.says("cannot connect", "is the docker daemon running", "connection refused"):
            return self._mute()
        if complaint.says("does not support reading"):
            reason = f"the log driver of container {container} cannot be read: run it with --log-driver json-file"
            return Trouble(reason)
        return Trouble(f"{complaint.after(f'{program} {ending(status)}')}; it is started again")

    def missing(self, sentence: str) -> Trouble:
        """See `Dialect`."""
        return Trouble("neither docker nor podman is to be had here: name the container's log file (--log PATH)")

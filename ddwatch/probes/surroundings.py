"""What this host lets ddwatch see: logs, journal, containers, GPUs, kernel log, and what each would need."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import timezone
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ddwatch.core.grammar import LogReader
from ddwatch.core.records import DecodeBatch, PrefillBatch, Record, ServerStart

State = Literal["seen", "partly", "unseen", "absent"]
"""Everything; something, and a flag or permission gives more; nothing yet; not a thing of this host."""

TAIL_BYTES = 1024 * 1024
COMMAND_SECONDS = 5.0
DECODE_SHARE = 200
"""Lines of a log's end without any decode line, from which something is amiss."""


class Sight(Struct, frozen=True, kw_only=True):
    """One thing that can be observed, or could be."""

    name: str
    state: State
    source: str
    """Where it would be read."""
    detail: str
    command: str | None = None
    """What gives more, exactly as to be typed or added."""


class Ran(Struct, frozen=True):
    """How a command ended; `code` None for one that could not be run or did not end."""

    code: int | None
    out: str
    err: str = ""


def ran(words: Sequence[str]) -> Ran:
    """Runs a command without a shell, for a few seconds at most."""
    try:
        done = subprocess.run(
            list(words), capture_output=True, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Ran(None, "")
    return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


class Host:
    """This host, with its parts handed in."""

    def __init__(
        self,
        *,
        which: Callable[[str], str | None] = shutil.which,
        run: Callable[[Sequence[str]], Ran] = ran,
        environment: Mapping[str, str] | None = None,
        kmsg: Path = Path("/dev/kmsg"),
        docker_socket: Path = Path("/var/run/docker.sock"),
    ) -> None:
        self._which = which
        self._run = run
        self._environment = os.environ if environment is None else environment
        self._kmsg = kmsg
        self._docker_socket = docker_socket

    def user(self) -> str:
        """The name of this user, for commands."""
        return self._environment.get("USER") or self._environment.get("LOGNAME") or "$USER"

    def journal(self) -> Sight:
        """Whether the system's journal may be read."""
        name, source = "journal", "journald"
        if self._which("journalctl") is None:
            return Sight(name=name, state="absent", source=source, detail="no journald on this host")
        done = self._run(["journalctl", "--system", "--lines=1", "--quiet", "--output=cat"])
        hidden = "not seeing messages" in done.err.lower() or "permission" in done.err.lower()
        if done.code == 0 and done.out.strip() and not hidden:
            return Sight(
                name=name,
                state="seen",
                source=source,
                detail="readable",
                command="ddwatch --log journal:UNIT",
            )
        return Sight(
            name=name,
            state="unseen",
            source=source,
            detail="this user may not read it",
            command=f"sudo usermod -aG systemd-journal {self.user()}",
        )

    def containers(self) -> Sight:
        """Whether the logs of containers can be followed."""
        name, source = "containers", "docker logs"
        if not self.has("docker"):
            if self.has("podman"):
                detail, command = "podman is here", "ddwatch --log docker:NAME"
                return Sight(name=name, state="seen", source="podman logs", detail=detail, command=command)
            return Sight(name=name, state="absent", source=source, detail="no docker and no podman on this host")
        if os.access(self._docker_socket, os.R_OK | os.W_OK):
            command = "ddwatch --log docker:NAME"
            return Sight(name=name, state="seen", source=source, detail="docker answers this user", command=command)
        return Sight(
            name=name,
            state="unseen",
            source=source,
            detail="docker's socket is not open to this user",
            command=f"sudo usermod -aG docker {self.user()}",
        )

    def gpus(self) -> Sight:
        """Whether the driver tells about the GPUs."""
        name, source = "GPUs", "NVML"
        if self._which("nvidia-smi") is None:
            return Sight(name=name, state="absent", source=source, detail="no NVIDIA driver on this host")
        done = self._run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
        names = [line.strip() for line in done.out.splitlines() if line.strip()]
        if done.code == 0 and names:
            kinds = ", ".join(f"{names.count(kind)} x {kind}" for kind in sorted(set(names)))
            return Sight(name=name, state="seen", source=source, detail=kinds[:120])
        reason = "the driver does not answer" if done.code is None else "the driver answers with an error"
        return Sight(name=name, state="unseen", source=source, detail=reason, command="nvidia-smi")

    def kernel_log(self) -> Sight:
        """Whether Xid faults can be read."""
        name, source = "Xid faults", "kernel log"
        try:
            os.close(os.open(self._kmsg, os.O_RDONLY | os.O_NONBLOCK))
        except FileNotFoundError:
            return Sight(name=name, state="absent", source=source, detail="no kernel log here (a container?)")
        except OSError:
            return Sight(
                name=name,
                state="unseen",
                source=source,
                detail="this user may not read it",
                command=f"sudo usermod -aG systemd-journal {self.user()}",
            )
        return Sight(name=name, state="seen", source=source, detail="readable")

    def has(self, program: str) -> bool:
        """Whether there is a program of this name."""
        return self._which(program) is not None

    def log(self, path: Path) -> tuple[Sight, list[Record]]:
        """Whether a log can be read and holds decode lines; the records of its end."""
        name, source = "log", str(path)
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                file.seek(max(0, size - TAIL_BYTES))
                lines = file.read(TAIL_BYTES).splitlines()[1 if size > TAIL_BYTES else 0 :]
        except PermissionError:
            command = f"sudo setfacl -m u:{self.user()}:r {path}"
            return Sight(
                name=name, state="unseen", source=source, detail="this user may not read it", command=command
            ), []
        except OSError as error:
            reason = (error.strerror or "unreadable").lower()
            return Sight(name=name, state="unseen", source=source, detail=reason, command="ddwatch --log PATH"), []
        return judged(source, lines)


def judged(source: str, lines: Sequence[bytes], reach: str = "in its last MiB") -> tuple[Sight, list[Record]]:
    """What the last lines of a log say of it, and their records."""
    name = "log"
    reader = LogReader(timezone.utc, 0.0, os.urandom(32))
    records = [record for number, line in enumerate(lines, 1) for record in reader.read(line, None, number)]
    records += reader.close()
    decodes = sum(isinstance(record, DecodeBatch) for record in records)
    if decodes:
        return Sight(name=name, state="seen", source=source, detail=f"{decodes} decode lines {reach}"), records
    if any(isinstance(record, (PrefillBatch, ServerStart)) for record in records) or len(lines) < DECODE_SHARE:
        detail = "it is SGLang's, and its end holds no decode line yet" if records else "no line of it is SGLang's yet"
        return Sight(name=name, state="partly", source=source, detail=detail), records
    return (
        Sight(
            name=name,
            state="unseen",
            source=source,
            detail="no line of it is SGLang's: decode lines are of level info, and the scheduler's",
            command="--log-level info",
        ),
        records,
    )

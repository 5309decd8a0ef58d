"""The containers themselves: one folder each, with its state and the messages that the daemon would have stored."""

import calendar
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PIECE = 16 * 1024
"""docker stores a longer line in pieces."""
POLL_SECONDS = 0.01
"""Between two looks at what was written."""
NEVER = "0001-01-01T00:00:00Z"


class Missing(Exception):
    """There is no such container."""


def stamp(nanos: int) -> str:
    """As docker prints it: nine digits, UTC."""
    seconds, rest = divmod(nanos, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


def nanos_of(text: str) -> int:
    """The other way round; a docker client hands `seconds.nanos` on to the daemon."""
    if "T" not in text:
        seconds, _, rest = text.partition(".")
        return int(seconds or 0) * 1_000_000_000 + int(rest.ljust(9, "0") or 0)
    plain, _, rest = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(plain, "%Y-%m-%dT%H:%M:%S")) * 1_000_000_000 + int(rest.ljust(9, "0") or 0)


def found(root: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """The folder and state of a container, by its name or id."""
    for path in sorted(root.glob("*/state.json")):
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if name in (state["Name"], state["Id"]):
            return path.parent, state
    raise Missing(name)


def messages(root: Path, name: str, *, follow: bool, since: int, tail: int | None) -> Iterator[tuple[str, bytes]]:
    """What a client gets: (stream, bytes) with a stamp before each stored piece; an empty one while it waits."""
    folder, _ = found(root, name)
    path = folder / "log"
    position = 0
    first = True
    while True:
        running = _running(folder)
        data = path.read_bytes() if path.exists() else b""
        fresh = [json.loads(line) for line in data[position:].splitlines()]
        position = len(data)
        if first and tail is not None:
            fresh = fresh[len(fresh) - tail :] if tail else []
        first = False
        for stream, nanos, text in fresh:
            if nanos >= since:
                yield stream, f"{stamp(nanos)} {text}".encode("utf-8", "surrogateescape")
        if not follow or not running:
            return
        yield "stdout", b""
        time.sleep(POLL_SECONDS)


def _running(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / "state.json").read_text(encoding="utf-8"))["State"]["Running"])
    except (OSError, ValueError):
        return False


class Paper:
    """The hand that starts, stops and removes one container of a name, and writes in its place."""

    def __init__(self, root: Path, name: str, clock: Callable[[], float]) -> None:
        self._root = root
        self._name = name
        self._clock = clock
        self._number = 0
        self._nanos = 0
        self._folder = root / "none"

    def create(self) -> None:
        """A new container of this name, not yet started."""
        self._number += 1
        self._folder = self._root / f"{self._number}"
        self._folder.mkdir(parents=True)
        self._say("created", NEVER)

    def start(self) -> None:
        """It runs."""
        self._say("running", stamp(self._now()))

    def stop(self, exit_code: int = 0, *, out_of_memory: bool = False) -> None:
        """It ends."""
        state = json.loads((self._folder / "state.json").read_text(encoding="utf-8"))["State"]
        self._say("exited", state["StartedAt"], exit_code, out_of_memory)

    def remove(self) -> None:
        """It and its log are gone."""
        for path in self._folder.iterdir():
            path.unlink()
        self._folder.rmdir()

    def write(self, *lines: str, stream: str = "stderr") -> None:
        """Lines of the container, each stored a moment after the last."""
        stored = b""
        for line in lines:
            text = f"{line}\n"
            for start in range(0, len(text), PIECE):
                piece = text[start : start + PIECE]
                stored += json.dumps([stream, self._now(), piece]).encode() + b"\n"
        with (self._folder / "log").open("ab") as file:
            file.write(stored)

    def rotate(self) -> None:
        """The oldest messages are gone: all of them so far."""
        (self._folder / "log").write_bytes(b"")

    def _now(self) -> int:
        self._nanos = max(self._nanos + 1000, int(self._clock() * 1e9))
        return self._nanos

    def _say(self, status: str, began: str, exit_code: int = 0, out_of_memory: bool = False) -> None:
        document = {
            "Id": f"{self._number:064x}",
            "Name": self._name,
            "State": {
                "Status": status,
                "Running": status == "running",
                "ExitCode": exit_code,
                "OOMKilled": out_of_memory,
                "StartedAt": began,
            },
        }
        new = self._folder / "state.new"
        new.write_text(json.dumps(document), encoding="utf-8")
        new.replace(self._folder / "state.json")

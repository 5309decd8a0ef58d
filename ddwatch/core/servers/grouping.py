"""Puts the processes of a machine together to servers: a launcher, and the children that gave themselves titles."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ddwatch.core.servers.command_line import Launch, is_python, read_command, title_of

HIGHEST_CLIMB = 64
"""Generations between a child and its launcher."""
FRONTS = ("http", "tokenizer", "server", "launch")
"""Beginnings of titles of processes that serve HTTP."""


class Process(Struct, frozen=True, kw_only=True):
    """One process as the kernel lists it. Its words hold secrets: they stay inside discovery."""

    pid: int
    parent: int | None = None
    words: tuple[str, ...] = ()


class Engine(Struct, frozen=True, kw_only=True):
    """One running server: the process that was started, and those of its own that it started."""

    pid: int
    launch: Launch | None = None
    """None where the engine runs inside another program, or its launcher's arguments are lost."""
    children: tuple[int, ...] = ()
    """Processes below it that carry a title or are copies of it, in order of pid."""
    titles: tuple[str, ...] = ()

    @property
    def schedulers(self) -> int:
        """How many scheduler processes it has; 0 while it starts."""
        return sum("scheduler" in title for title in self.titles)


class Grouped(Struct, frozen=True, kw_only=True):
    """All engines of a machine."""

    engines: tuple[Engine, ...] = ()
    leftovers: tuple[int, ...] = ()
    """Children whose server is gone: what still holds the cards after a launcher was killed."""


def ancestors(pid: int, known: Mapping[int, Process]) -> list[Process]:
    """The processes above one, nearest first; a table that contradicts itself ends the climb."""
    found: list[Process] = []
    seen = {pid}
    above = known[pid].parent if pid in known else None
    while above is not None and above in known and above not in seen and len(found) < HIGHEST_CLIMB:
        seen.add(above)
        found.append(known[above])
        above = known[above].parent
    return found


def grouped(processes: Iterable[Process]) -> Grouped:
    """The engines among these processes, in order of pid."""
    known = {process.pid: process for process in processes}
    launches = {pid: launch for pid, one in known.items() if (launch := read_command(one.words)) is not None}
    children: dict[int, dict[int, str | None]] = {}
    leftovers: list[int] = []
    for pid in launches:
        above = next((one.pid for one in ancestors(pid, known) if one.pid in launches), None)
        # A copy of the launcher (a fork that serves HTTP too) is no server of its own.
        if above is not None and launches[above] == launches[pid]:
            children.setdefault(above, {})[pid] = None
    copies = {pid for own in children.values() for pid in own}
    for pid in sorted(known):
        title = title_of(known[pid].words)
        if title is None:
            continue
        root = _root(pid, known, launches, copies)
        if root is None:
            leftovers.append(pid)
        elif root != pid:
            children.setdefault(root, {})[pid] = title
        else:
            children.setdefault(root, {})
    engines = [
        Engine(
            pid=pid,
            launch=launches.get(pid),
            children=tuple(sorted(own)),
            titles=tuple(title for _, title in sorted(own.items()) if title is not None),
        )
        for pid in sorted((launches.keys() | children.keys()) - copies)
        for own in (children.get(pid, {}),)
    ]
    return Grouped(engines=tuple(engines), leftovers=tuple(leftovers))


def _root(pid: int, known: Mapping[int, Process], launches: Mapping[int, Launch], copies: set[int]) -> int | None:
    """The process that a titled one belongs to; None where it is gone."""
    above = ancestors(pid, known)
    launcher = next((one.pid for one in above if one.pid in launches and one.pid not in copies), None)
    if launcher is not None:
        return launcher
    titled = [pid]
    for one in above:
        if title_of(one.words) is None:
            if one.words and is_python(one.words[0]):
                return one.pid
            break
        titled.append(one.pid)
    top = title_of(known[titled[-1]].words) or ""
    return titled[-1] if top.startswith(FRONTS) else None

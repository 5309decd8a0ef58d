"""Makes one source of each log that was named: a file, standard input, a journal, a container or a command."""

import os
import sys
from collections import Counter
from pathlib import Path

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.log_place import LogPlace, read_place
from ddwatch_sidecar.config import Settings
from ddwatch_sidecar.sources.contract import Source
from ddwatch_sidecar.sources.log_file import LogFile
from ddwatch_sidecar.sources.standard_input import StandardInput

MIB = 1024 * 1024


def sources(settings: Settings) -> list[Source]:
    """One source per --log; raises CommandFailed when there is nothing to read or one is named twice."""
    if not settings.log and settings.sglang_url is None:
        raise CommandFailed(
            "there is nothing to read: give --log PATH (or journal:UNIT, docker:NAME, command:CMD, - for standard "
            "input), or --sglang-url URL",
            Exit.USAGE,
        )
    if len(set(settings.log)) < len(settings.log):
        raise CommandFailed("the same log is named twice", Exit.USAGE)
    places = [read_place(text) for text in settings.log]
    return [_source(place, name, settings) for place, name in zip(places, names(places), strict=True)]


def names(places: list[LogPlace]) -> list[str]:
    """A name for each: short, without arguments, no two alike."""
    files = sum(place.kind == "file" for place in places)
    found: list[str] = []
    seen: Counter[str] = Counter()
    for place in places:
        name = place.label if place.kind != "file" or files == 1 else f"log:{place.target}"
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found


def watched(settings: Settings) -> str:
    """What is read, in words for a terminal and a recording; of a command no argument."""
    places = [read_place(text) for text in settings.log]
    words = [place.label if place.kind == "command" else text for place, text in zip(places, settings.log, strict=True)]
    return ", ".join([*words, *([settings.sglang_url] if settings.sglang_url is not None else [])])


def _source(place: LogPlace, name: str, settings: Settings) -> Source:
    catch_up_bytes = int(settings.catch_up * MIB)
    if place.kind == "file":
        return LogFile(Path(place.target), name=name, catch_up_bytes=catch_up_bytes)
    if place.kind == "stdin":
        if sys.stdin is None or sys.stdin.closed:
            raise CommandFailed("standard input is closed, so --log - has nothing to read", Exit.INPUT)
        return StandardInput()
    # Loaded only where they are used.
    from ddwatch_sidecar.sources.child_lines import ChildLines, Dialect

    dialect: Dialect
    if place.kind == "journal":
        from ddwatch_sidecar.sources.journal import Journal

        dialect = Journal(place.target, name=name, user=place.user, catch_up_bytes=catch_up_bytes)
    elif place.kind == "docker":
        from ddwatch_sidecar.sources.container import Container

        dialect = Container(place.target, name=name, catch_up_bytes=catch_up_bytes)
    else:
        from ddwatch_sidecar.sources.command import Command

        dialect = Command(place.words, name=name)
    # A command is handed none of ddwatch's secrets; the refusals of journalctl and docker are read in their own words.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DDWATCH_")}
    if place.kind != "command":
        environment["LC_ALL"] = "C.UTF-8"
    return ChildLines(dialect, name=name, environment=environment)

"""The log that a command line names with --log: refused with one sentence where it cannot be meant or had."""

import shutil

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.log_place import LogPlace, read_place

PROGRAMS = {"journal": ("journalctl",), "docker": ("docker", "podman")}
"""Of each kind, the programs of which one is needed."""


def place_named(command: str, text: str) -> LogPlace:
    """Where it is; raises CommandFailed in the name of a command (empty: the screen's) for what cannot be meant."""
    try:
        return read_place(text)
    except ValueError as error:
        raise CommandFailed(f"ddwatch{' ' if command else ''}{command}: --log {error}", Exit.USAGE) from None


def need_program(place: LogPlace) -> None:
    """Raises CommandFailed when what tells the log is not here: one reading has nothing to wait for then."""
    programs = PROGRAMS.get(place.kind, place.words[:1] if place.kind == "command" else ())
    if programs and not any(shutil.which(program) for program in programs):
        raise CommandFailed(f"ddwatch: there is no {' and no '.join(programs)} here to read {place.label} with")

"""What may stand behind each flag and at each place of each command: words, files, folders, profiles, or anything."""

from collections.abc import Iterable, Sequence
from typing import get_args

from msgspec import Struct

from ddwatch.command_line import Flag
from ddwatch.core.alert_orders import ALARMS
from ddwatch.core.verdict import VerdictName
from ddwatch.demo.scenarios import SCENARIOS
from ddwatch.profiles.shelf import built_in_names


class Values(Struct, frozen=True, kw_only=True):
    """What can be offered for one value; nothing at all where only the operator knows it."""

    words: tuple[str, ...] = ()
    files: bool = False
    folders: bool = False
    profiles: bool = False
    """Also the operator's own profiles, which are looked for when they are asked for."""


class Option(Struct, frozen=True, kw_only=True):
    """A flag of a command."""

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    values: Values | None = None
    """None for a flag without a value."""
    optional: bool = False
    """Whether its value may be left out."""
    repeats: bool = False


class Place(Struct, frozen=True):
    """A word of a command that has no flag."""

    metavar: str
    values: Values
    endless: bool = False
    """Whether all that follow are of this kind."""


class Shape(Struct, frozen=True):
    """A command as completion knows it."""

    name: str
    summary: str
    options: tuple[Option, ...]
    places: tuple[Place, ...]


LOG_KINDS = ("journal:", "journal:user/", "docker:", "command:")
ANY = Values()
FILES = Values(files=True)
PROFILES = Values(words=tuple(built_in_names()), files=True, profiles=True)
BY_METAVAR: dict[str, Values] = {
    "FILE": FILES,
    "LOG": FILES,
    "LOG|RECORDING": FILES,
    "RECORDING": FILES,
    "NAME=LOG": FILES,
    "PATH|…": Values(words=LOG_KINDS, files=True),
    "DIR": Values(folders=True),
    "DIR|off": Values(words=("off",), folders=True),
    "NAME|FILE": PROFILES,
    "P": PROFILES,
    "PROFILE": PROFILES,
    "VERDICT[,VERDICT]": Values(words=get_args(VerdictName)),
    "NAME|all": Values(words=(*ALARMS, "all")),
    "ZONE": Values(words=("UTC",)),
}
BY_DEST: dict[str, Values] = {"scenario": Values(words=tuple(story.name for story in SCENARIOS))}
"""Values of flags whose metavar says less than their name."""
FREE = frozenset(
    {
        *("N", "N,N", "S", "A", "B", "C", "MIN", "MIB", "DAYS", "PID", "TOKENS", "TIME", "HH:MM-HH:MM"),
        *("URL", "HOST:PORT", "NAME", "NAME,NAME", "WORD", "TEXT"),
    }
)
"""Metavars of values that only the operator knows; a test finds those that are in no list."""


def values_of(flag: Flag) -> Values:
    """What can be offered for a flag's value."""
    if flag.choices:
        return Values(words=flag.choices)
    return BY_DEST.get(flag.dest) or BY_METAVAR.get(flag.metavar, ANY)


def unknown(flags: Iterable[Flag]) -> list[str]:
    """Flags with a value of which nobody has said what it is."""
    return [flag.dest for flag in flags if flag.value != "none" and values_of(flag) == ANY and flag.metavar not in FREE]


def shape(name: str, summary: str, flags: Sequence[Flag]) -> Shape:
    """A command from its flags."""
    options = tuple(
        Option(
            names=flag.names,
            help=flag.help,
            metavar=flag.metavar,
            values=None if flag.value == "none" else values_of(flag),
            optional=flag.value == "optional",
            repeats=flag.repeats,
        )
        for flag in flags
        if flag.names
    )
    places = tuple(
        Place(flag.metavar or flag.dest, values_of(flag), flag.value == "many") for flag in flags if not flag.names
    )
    return Shape(name, summary, options, places)

"""Where a log is to be had, as one word of a command line says it: a file, standard input, a journal, a container."""

import re
import shlex
from typing import Literal

from msgspec import Struct

Kind = Literal["file", "stdin", "journal", "docker", "command"]

UNIT = re.compile(r"[A-Za-z0-9_@:.*?\[\]\\][A-Za-z0-9_@:.*?\[\]\\-]{0,254}\Z")
CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}\Z")
SUFFIXES = (".service", ".scope", ".slice", ".socket", ".timer", ".path", ".target", ".mount", ".device", ".swap")
USER = "user/"
"""Before the name of a unit that a user's own service manager runs."""
LONGEST_LABEL = 40
"""More would leave no room for its age on a narrow screen."""


class LogPlace(Struct, frozen=True):
    """One log, named by the operator."""

    kind: Kind
    target: str
    """The path, the unit, the container or the command line."""
    user: bool = False
    """A unit of some user's service manager, not of the system's."""

    @property
    def words(self) -> tuple[str, ...]:
        """The command line in words; no shell reads it."""
        return tuple(shlex.split(self.target))

    @property
    def label(self) -> str:
        """Its name on the screen and in metrics; of a command only the program, since arguments may hold secrets."""
        if self.kind == "stdin":
            return "stdin"
        if self.kind == "file":
            return "log"
        target = self.words[0].rpartition("/")[2] if self.kind == "command" else self.target
        plain = "".join(mark if mark.isprintable() else "?" for mark in target)
        label = f"{self.kind}:{USER if self.user else ''}{plain}"
        return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def unit_matches(unit: str, *, user: bool) -> tuple[str, ...]:
    """The words that make journalctl print one unit only.

    A unit of a user's own service manager is looked up by what journald says of it, whoever the user is.
    """
    if not user:
        return (f"--unit={unit}",)
    name = unit if unit.endswith(SUFFIXES) else f"{unit}.service"
    return (f"_SYSTEMD_USER_UNIT={name}", "+", f"OBJECT_SYSTEMD_USER_UNIT={name}")


def read_place(text: str) -> LogPlace:
    """What a `--log` names; raises ValueError with a phrase that follows the name of the setting."""
    if text == "-":
        return LogPlace("stdin", "-")
    scheme, colon, target = text.partition(":")
    if colon and scheme == "journal":
        user = target.startswith(USER)
        unit = target.removeprefix(USER) if user else target
        if not unit:
            raise ValueError("names no unit: write journal:UNIT, like journal:sglang (journal:user/UNIT for a user's)")
        if not UNIT.match(unit):
            raise ValueError(f"names no unit of systemd: {unit!r} (write it like journal:sglang.service)")
        return LogPlace("journal", unit, user)
    if colon and scheme == "docker":
        if not target:
            raise ValueError("names no container: write docker:NAME, like docker:sglang")
        if not CONTAINER.match(target):
            raise ValueError(f"names no container: {target!r} (letters, digits and _ . - as `docker ps` shows it)")
        return LogPlace("docker", target)
    if colon and scheme == "command":
        try:
            words = shlex.split(target)
        except ValueError as error:
            raise ValueError(f"cannot be split into words: {str(error).lower()}") from None
        if not words or not words[0]:
            raise ValueError("names no command: write 'command:CMD ARGS', like 'command:kubectl logs -f sglang-0'")
        return LogPlace("command", target)
    return LogPlace("file", text)

"""How every command line of ours behaves: one-sentence errors, examples in the help, and flags told as plain data."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Literal, NoReturn

from msgspec import Struct

from ddwatch.core.exits import Exit

EXAMPLES = "examples:\n"


class Flag(Struct, frozen=True, kw_only=True):
    """One argument of a command, as shell completion needs to know it."""

    names: tuple[str, ...] = ()
    """Empty for a word that stands by its place."""
    dest: str
    metavar: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()
    value: Literal["none", "optional", "one", "many"] = "none"
    repeats: bool = False


class Formatter(argparse.HelpFormatter):
    """Fills paragraphs as argparse does, one by one, and leaves the examples as they are written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        parts = text.split("\n\n")
        return "\n\n".join(part if part.startswith(EXAMPLES) else fill(part, width, indent) for part in parts)


class Parser(argparse.ArgumentParser):
    """argparse with one-sentence errors and this project's exit code for wrong usage."""

    def __init__(self, *, prog: str, description: str, epilog: str | None = None, examples: Sequence[str] = ()) -> None:
        super().__init__(
            prog=prog, description=description, epilog=epilog, allow_abbrev=False, formatter_class=Formatter
        )
        self.examples = tuple(examples)

    def format_help(self) -> str:
        """The help, the examples before what else is said at its end."""
        own = self.epilog
        shown = EXAMPLES + "\n".join(f"  {line}" for line in self.examples) if self.examples else None
        self.epilog = "\n\n".join(part for part in (shown, own) if part) or None
        try:
            return super().format_help()
        finally:
            self.epilog = own

    def error(self, message: str) -> NoReturn:
        """Prints one sentence on stderr and leaves with 64."""
        self.exit(Exit.USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def flags_of(parser: argparse.ArgumentParser) -> tuple[Flag, ...]:
    """All arguments of a parser, in the order of its help."""
    return tuple(_flags(parser))


def _flags(parser: argparse.ArgumentParser) -> Iterator[Flag]:
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        yield Flag(
            names=tuple(action.option_strings),
            dest=action.dest,
            metavar=metavar,
            help=(action.help or "").replace("%%", "%"),
            choices=tuple(str(choice) for choice in action.choices or ()),
            value=_value(action),
            repeats=isinstance(action, argparse._AppendAction),
        )


def _value(action: argparse.Action) -> Literal["none", "optional", "one", "many"]:
    if action.nargs == 0:
        return "none"
    if action.nargs in ("+", "*"):
        return "many"
    return "optional" if action.nargs == "?" else "one"

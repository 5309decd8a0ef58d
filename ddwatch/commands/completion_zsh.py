"""Completion for zsh: a function of _arguments for each command, found by its place in fpath or sourced."""

import shlex
from collections.abc import Sequence

from ddwatch.commands.completion_words import Option, Shape, Values

HEAD = """\
#compdef ddwatch ddwatch-sidecar
# Completion of ddwatch for zsh, printed by `ddwatch completion zsh`: save it as _ddwatch in a folder of fpath,
# or after compinit: source <(ddwatch completion zsh)

_ddwatch_profiles() {
    local -a found
    found=("${XDG_DATA_HOME:-$HOME/.local/share}"/ddwatch/profiles/*.toml(N:t:r))
    (( $#found )) && compadd -a found
}
"""
TAIL = """
_ddwatch() {
    local -a commands
    local name=live
    commands=(
@COMMANDS@
    )
    if [[ ${words[1]:t} == ddwatch-sidecar ]]; then
        _ddwatch_of_sidecar
        return
    fi
    if (( CURRENT == 2 )) && [[ ${words[2]} != -* ]]; then
        _describe -t commands 'ddwatch command' commands
        return
    fi
    case ${words[2]} in
        @PATTERN@) name=${words[2]}; shift words; (( CURRENT-- )) ;;
    esac
    _ddwatch_of_$name
}

if [[ ${funcstack[1]} == _ddwatch ]]; then
    _ddwatch "$@"
else
    compdef _ddwatch ddwatch ddwatch-sidecar
fi
"""


def plain(text: str) -> str:
    """A help text or metavar inside a specification of _arguments."""
    for mark in "\\[]:":
        text = text.replace(mark, f"\\{mark}")
    return text


def offer(values: Values) -> str:
    """The body of a function that offers the values."""
    found = []
    ending = [word for word in values.words if word.endswith((":", "/"))]
    whole = [word for word in values.words if word not in ending]
    if whole:
        found.append(f"compadd -- {shlex.join(whole)}")
    if ending:
        found.append(f"compadd -S '' -- {shlex.join(ending)}")
    if values.profiles:
        found.append("_ddwatch_profiles")
    if values.files:
        found.append("_files")
    if values.folders:
        found.append("_files -/")
    return "; ".join(found) or "_message value"


class Offers:
    """A function for each kind of values that comes up."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, values: Values) -> str:
        """The function that offers these."""
        return self._names.setdefault(offer(values), f"_ddwatch_values_{len(self._names) + 1}")

    def text(self) -> str:
        """All functions."""
        return "".join(f"{name}() {{ {body} }}\n" for body, name in self._names.items())


def flag(option: Option, offers: Offers) -> list[str]:
    """The specifications of a flag, one for each of its names."""
    apart = "*" if option.repeats else f"({' '.join(option.names)})" if len(option.names) > 1 else ""
    value = ""
    if option.values is not None:
        value = f"{'::' if option.optional else ':'}{plain(option.metavar or 'value')}:{offers.name(option.values)}"
    return [shlex.quote(f"{apart}{name}[{plain(option.help)}]{value}") for name in option.names]


def zsh(shapes: Sequence[Shape]) -> str:
    """The script."""
    offers = Offers()
    functions = []
    for one in shapes:
        stated = [line for option in one.options for line in flag(option, offers)]
        for number, place in enumerate(one.places, 1):
            where = "*" if place.endless else str(number)
            stated.append(shlex.quote(f"{where}:{plain(place.metavar)}:{offers.name(place.values)}"))
        functions.append(f"_ddwatch_of_{one.name}() {{\n    _arguments -S \\\n        ")
        functions.append(" \\\n        ".join(stated) + "\n}\n")
    names = " | ".join(one.name for one in shapes)
    commands = "\n".join(f"        {shlex.quote(f'{one.name}:{plain(one.summary)}')}" for one in shapes)
    tail = TAIL.replace("@COMMANDS@", commands).replace("@PATTERN@", names)
    return HEAD + "\n" + offers.text() + "\n" + "\n".join(["".join(functions)]) + tail

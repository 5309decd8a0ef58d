"""Completion for bash: one function and tables that need nothing of the bash-completion package."""

import shlex
from collections.abc import Sequence

from ddwatch.commands.completion_words import Shape, Values

HEAD = """\
# Completion of ddwatch for bash, printed by `ddwatch completion bash`:
#   source <(ddwatch completion bash)

_ddwatch_add() { # compgen's words: what they find is offered
    local line
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$@" -- "$cur")
}

_ddwatch_profiles() {
    local file
    for file in "${XDG_DATA_HOME:-$HOME/.local/share}"/ddwatch/profiles/*.toml; do
        file=${file##*/}
        file=${file%.toml}
        [[ $file != '*' && $file == "$cur"* ]] && COMPREPLY+=("$file")
    done
}

_ddwatch_offer() { # WORDS KINDS: all that may stand here
    local kind
    [[ -n $1 ]] && _ddwatch_add -W "$1"
    # Told that these are files, readline quotes them and adds a slash to folders; a word like journal: stays as it is.
    [[ ${#COMPREPLY[@]} == 0 && "$2" == *f* ]] && compopt -o filenames 2>/dev/null
    for kind in $2; do
        case $kind in
            files) _ddwatch_add -f ;;
            folders) _ddwatch_add -d ;;
            profiles) _ddwatch_profiles ;;
        esac
    done
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[:/] ]] && compopt -o nospace 2>/dev/null
    return 0
}

_ddwatch() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=live first=1 takes='' place=0
    local index word skip='' flags=''
    COMPREPLY=()
    # bash parts --flag=value into three words.
    if [[ $cur == '=' ]]; then
        cur=''
    elif [[ $prev == '=' && COMP_CWORD -gt 2 ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if [[ ${COMP_WORDS[0]##*/} == ddwatch-sidecar ]]; then
        command=sidecar
    elif [[ COMP_CWORD -eq 1 ]]; then
        [[ $cur == -* ]] || { _ddwatch_add -W '@NAMES@'; return 0; }
    else
        case ${COMP_WORDS[1]} in
            @PATTERN@) command=${COMP_WORDS[1]} first=2 ;;
        esac
    fi
    case $command in
@FLAGS@
    esac
    for ((index = first; index < COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if [[ $word == '=' ]]; then
            :
        elif [[ -n $skip ]]; then
            skip=''
        elif [[ $word == -?* ]]; then
            [[ " $takes " == *" $word "* ]] && skip=yes
        else
            place=$((place + 1))
        fi
    done
    case "$command $prev" in
@VALUES@
    esac
    if [[ $cur == -* ]]; then
        _ddwatch_add -W "$flags"
        return 0
    fi
    case "$command $place" in
@PLACES@
        *) _ddwatch_add -W "$flags" ;;
    esac
}

complete -F _ddwatch ddwatch ddwatch-sidecar
"""


def kinds(values: Values) -> str:
    """What else than words is offered."""
    stated = {"files": values.files, "folders": values.folders, "profiles": values.profiles}
    return " ".join(kind for kind, wanted in stated.items() if wanted)


def offer(values: Values) -> str:
    """The call that offers the values."""
    return f"_ddwatch_offer {shlex.quote(' '.join(values.words))} {shlex.quote(kinds(values))}"


def bash(shapes: Sequence[Shape]) -> str:
    """The script."""
    flags, values, places = [], [], []
    for one in shapes:
        names = " ".join(name for option in one.options for name in option.names)
        takes = " ".join(
            name for option in one.options if option.values is not None and not option.optional for name in option.names
        )
        flags.append(f"        {one.name}) flags={shlex.quote(names)} takes={shlex.quote(takes)} ;;")
        for option in one.options:
            if option.values is not None:
                pattern = " | ".join(f"'{one.name} {name}'" for name in option.names)
                values.append(f"        {pattern}) {offer(option.values)}; return 0 ;;")
        for number, place in enumerate(one.places):
            pattern = f"'{one.name} '*" if place.endless else f"'{one.name} {number}'"
            places.append(f"        {pattern}) {offer(place.values)} ;;")
    commands = [one.name for one in shapes]
    return (
        HEAD.replace("@NAMES@", " ".join(commands))
        .replace("@PATTERN@", " | ".join(commands))
        .replace("@FLAGS@", "\n".join(flags))
        .replace("@VALUES@", "\n".join(values))
        .replace("@PLACES@", "\n".join(places))
    )

"""Completion for fish: one `complete` line for each flag and place, and a function that knows where the cursor is."""

from collections.abc import Sequence

from ddwatch.commands.completion_words import Option, Shape, Values

HEAD = """\
# Completion of ddwatch for fish, printed by `ddwatch completion fish`:
#   ddwatch completion fish > ~/.config/fish/completions/ddwatch.fish

function __ddwatch_profiles
    set -l data $HOME/.local/share
    set -q XDG_DATA_HOME; and test -n "$XDG_DATA_HOME"; and set data $XDG_DATA_HOME
    for file in $data/ddwatch/profiles/*.toml
        string replace -r '.*/(.*)\\.toml$' '$1' -- $file
    end
end

function __ddwatch_first --description 'whether no word is there yet'
    test (count (commandline -opc)) -eq 1
end

function __ddwatch_at --argument-names wanted place more --description 'whether this command is at this place'
    set -l words (commandline -opc)
    set -l command live
    set -l takes
    if string match -q '*ddwatch-sidecar' -- $words[1]
        set command sidecar
    else if test (count $words) -gt 1; and contains -- $words[2] @NAMES@
        set command $words[2]
        set -e words[2]
    end
    test $command = $wanted; or return 1
    set -q place[1]; or return 0
    switch $command
@TAKES@
    end
    set -l found 0
    set -l skip no
    for word in $words[2..-1]
        if test $skip = yes
            set skip no
        else if string match -q -- '-?*' $word
            contains -- $word $takes; and set skip yes
        else
            set found (math $found + 1)
        end
    end
    test $found -eq $place; or test "$more" = more -a $found -ge $place
end

complete -c ddwatch -f
complete -c ddwatch-sidecar -f
"""


def quoted(text: str) -> str:
    """A text as one word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def offer(values: Values) -> str:
    """The part of a `complete` line that offers values."""
    words = [*values.words, *(["(__ddwatch_profiles)"] if values.profiles else [])]
    if values.folders:
        words.append("(__fish_complete_directories)")
    found = f" -a {quoted(' '.join(words))}" if words else ""
    return f"{found} -F" if values.files else found


def flag(option: Option) -> str:
    """Names, help and values of a flag."""
    found = ""
    for name in option.names:
        found += f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
    found += f" -d {quoted(option.help)}"
    if option.values is None:
        return found
    return found + " -r" + ("" if option.values.files else " -f") + offer(option.values)


def fish(shapes: Sequence[Shape]) -> str:
    """The script."""
    takes = []
    lines = [f"complete -c ddwatch -n __ddwatch_first -a {one.name} -d {quoted(one.summary)}" for one in shapes]
    for one in shapes:
        programs = "-c ddwatch -c ddwatch-sidecar" if one.name == "sidecar" else "-c ddwatch"
        names = [
            name for option in one.options if option.values is not None and not option.optional for name in option.names
        ]
        takes.append(f"        case {one.name}\n            set takes {' '.join(names)}")
        lines += [f"complete {programs} -n '__ddwatch_at {one.name}'{flag(option)}" for option in one.options]
        for number, place in enumerate(one.places):
            more = " more" if place.endless else ""
            if offered := offer(place.values):
                lines.append(f"complete {programs} -n '__ddwatch_at {one.name} {number}{more}'{offered}")
    head = HEAD.replace("@NAMES@", " ".join(one.name for one in shapes)).replace("@TAKES@", "\n".join(takes))
    return head + "\n".join(lines) + "\n"

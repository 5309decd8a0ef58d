"""Rooms and their lists agree: a new file without its line in the list, or without its proof, is seen."""

import importlib
import re
from collections.abc import Iterable
from typing import Any

from ddwatch.cli import COMMANDS
from ddwatch.core.grammar import FORMATS
from ddwatch.core.grammar.message import Format
from ddwatch.core.rules import RULES
from tests.architecture.checkout import ROOT, modules_under, tracked_texts

GRAMMAR_TOOLS = {"bars", "envelope", "fields", "message", "placement", "prefix", "reader", "text"}
"""Modules of the grammar that read no head of their own."""
RULE_TOOLS = {"situation"}
"""Modules of the rules that judge nothing."""


def unlisted(room: str, names: Iterable[str], listed: Iterable[str], tools: set[str]) -> list[str]:
    """Complaints about files of a room that are neither in its list nor known tools, and about stale tools."""
    names, listed = set(names), set(listed)
    return [
        *(f"{room}/{name}.py is in no list" for name in sorted(names - listed - tools)),
        *(f"{room}/{name}.py is called a tool and does not exist" for name in sorted(tools - names)),
        *(f"{room}: {name} is listed and does not exist" for name in sorted(listed - names)),
        *(f"{room}/{name}.py is called a tool and is listed" for name in sorted(tools & listed)),
    ]


def unproved(package: str, names: Iterable[str], tests: dict[str, str]) -> list[str]:
    """Modules of a package that no test file is named after and no test file imports."""
    files = {path.rsplit("/", 1)[-1] for path in tests}
    imports = re.compile(rf"^from {re.escape(package)}\.(\w+) import|^from {re.escape(package)} import (.+)$", re.M)
    found = {
        name.strip()
        for text in tests.values()
        for groups in imports.findall(text)
        for part in groups
        for name in part.split(",")
    }
    return sorted(name for name in names if f"test_{name}.py" not in files and name not in found)


def files_of(folder: str) -> dict[str, str]:
    """The tracked Python files of a folder of tests."""
    return {path: text for path, text in tracked_texts().items() if path.startswith(folder) and path.endswith(".py")}


def formats_in(modules: dict[str, Any]) -> dict[str, str]:
    """Every Format that a grammar module defines -> that module's name."""
    return {
        f"{name}.{attribute}": name
        for name, module in modules.items()
        for attribute, value in vars(module).items()
        if isinstance(value, Format) and attribute.isupper()
    }


def test_every_grammar_file_has_its_heads_in_the_list() -> None:
    names = modules_under("ddwatch/core/grammar")
    modules = {name: importlib.import_module(f"ddwatch.core.grammar.{name}") for name in names}
    defined = formats_in(modules)
    missing = [
        where for where, module in defined.items() if getattr(modules[module], where.split(".")[1]) not in FORMATS
    ]

    assert missing == []
    assert unlisted("grammar", names, defined.values(), GRAMMAR_TOOLS) == []
    assert len({form.name for form in FORMATS}) == len(FORMATS) == len(defined)


def test_every_rule_file_is_in_the_list() -> None:
    listed = [rule.__module__.rsplit(".", 1)[-1] for rule in RULES]

    assert unlisted("rules", modules_under("ddwatch/core/rules"), listed, RULE_TOOLS) == []
    assert len(set(listed)) == len(listed)


def test_every_command_file_is_in_the_list() -> None:
    prefix = "ddwatch.commands."
    listed = [command.module.removeprefix(prefix) for command in COMMANDS]

    assert all(command.module.startswith(prefix) for command in COMMANDS)
    assert unlisted("commands", modules_under("ddwatch/commands"), listed, set()) == []


def test_every_command_offers_what_the_front_door_calls() -> None:
    for command in COMMANDS:
        module = importlib.import_module(command.module)
        assert callable(module.add_arguments) and callable(module.run), command.name


def test_every_widget_has_its_test() -> None:
    assert unproved("ddwatch.widgets", modules_under("ddwatch/widgets"), files_of("tests/tui/")) == []


def test_every_feed_has_its_test() -> None:
    assert unproved("ddwatch.feeds", modules_under("ddwatch/feeds"), files_of("tests/")) == []


def test_every_source_and_export_has_its_test() -> None:
    for room in ("sources", "exports"):
        names = modules_under(f"sidecar/ddwatch_sidecar/{room}")
        assert unproved(f"ddwatch_sidecar.{room}", names, files_of("tests/sidecar/")) == [], room


def test_every_module_of_the_core_has_its_test() -> None:
    assert unproved("ddwatch.core", modules_under("ddwatch/core"), files_of("tests/")) == []


def test_every_test_file_holds_a_test_and_every_test_has_its_place() -> None:
    for path, text in tracked_texts().items():
        if re.fullmatch(r"tests/.*/test_\w+\.py", path):
            assert re.search(r"^\s*(async )?def test_", text, flags=re.MULTILINE), f"{path} tests nothing"
        elif path.startswith("tests/") and path.endswith(".py"):
            assert not re.search(r"^(async )?def test_", text, flags=re.MULTILINE), f"{path} is never collected"


def test_a_file_without_its_line_is_seen() -> None:
    assert unlisted("rules", ["idle", "stray", "tool"], ["idle"], {"tool"}) == ["rules/stray.py is in no list"]
    assert unlisted("rules", ["idle"], ["idle", "gone"], set()) == ["rules: gone is listed and does not exist"]
    assert unlisted("rules", ["idle"], ["idle"], {"tool"}) == ["rules/tool.py is called a tool and does not exist"]
    assert unlisted("rules", ["idle"], ["idle"], {"idle"}) == ["rules/idle.py is called a tool and is listed"]


def test_a_file_without_its_proof_is_seen() -> None:
    tests = {"tests/tui/test_plot.py": '"""Plots."""\n\nfrom ddwatch.widgets.axis import Axis\n'}

    assert unproved("ddwatch.widgets", ["axis", "plot", "stray"], tests) == ["stray"]


def test_a_head_outside_the_list_is_seen() -> None:
    class Module:
        FORMAT = FORMATS[0]
        other = "no head"

    assert formats_in({"decode": Module}) == {"decode.FORMAT": "decode"}


def test_the_rooms_are_where_they_are_looked_for() -> None:
    for room in ("ddwatch/core/grammar", "ddwatch/core/rules", "ddwatch/commands", "ddwatch/widgets"):
        assert (ROOT / room / "__init__.py").exists(), room
        assert modules_under(room) != [], room

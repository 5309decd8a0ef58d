"""Rooms and their lists agree: a new file without its line in the list, or without its proof, is seen."""

import importlib
import re
from collections.abc import Iterable
from typing import Any

from ddwatch.cli import COMMANDS
from ddwatch.core.grammar import FORMATS
from ddwatch.core.grammar.message import Format
from ddwatch.core.rules import ALARMS, RULES
from tests.architecture.checkout import ROOT, modules_under, tracked_texts
from tests.scenarios.runner import read_story


def imported(package: str, text: str) -> set[str]:
    """The modules of a package that a module imports."""
    pattern = rf"^\s*from {re.escape(package)}\.(\w+) import|^\s*from {re.escape(package)} import (.+)$"
    groups = re.findall(pattern, text, flags=re.MULTILINE)
    return {name.strip() for group in groups for part in group for name in part.split(",") if name.strip()}


def unlisted(package: str, modules: dict[str, str], listed: Iterable[str]) -> list[str]:
    """Modules of a room that are neither in its list nor used by another one, and list entries without a module."""
    used = {part for name, text in modules.items() for part in imported(package, text) - {name}}
    return [
        *(
            f"{package}.{name} is in no list and nothing there uses it"
            for name in sorted({*modules} - {*listed} - used)
        ),
        *(f"{package}.{name} is listed and does not exist" for name in sorted({*listed} - {*modules})),
    ]


def unproved(package: str, modules: dict[str, str], tests: dict[str, str]) -> list[str]:
    """Modules of a room that no test is named after or imports, and that are no part of one that is tested."""
    proved = {path.rsplit("/", 1)[-1].removeprefix("test_").removesuffix(".py") for path in tests}
    proved |= {name for text in tests.values() for name in imported(package, text)}
    waiting = [name for name in modules if name in proved]
    while waiting:
        for part in imported(package, modules[waiting.pop()]) & modules.keys() - proved:
            proved.add(part)
            waiting.append(part)
    return sorted(modules.keys() - proved)


def room(folder: str) -> dict[str, str]:
    """The modules of a room and their text."""
    return {name: (ROOT / folder / f"{name}.py").read_text(encoding="utf-8") for name in modules_under(folder)}


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
    assert unlisted("ddwatch.core.grammar", room("ddwatch/core/grammar"), {"reader", *defined.values()}) == []
    assert len({form.name for form in FORMATS}) == len(FORMATS) == len(defined)


def test_every_rule_file_is_in_the_list() -> None:
    listed = [rule.__module__.rsplit(".", 1)[-1] for rule in (*RULES, *ALARMS)]

    assert unlisted("ddwatch.core.rules", room("ddwatch/core/rules"), listed) == []
    assert len(set(listed)) == len(listed)


def untold(rules: Iterable[str], stories: Iterable[set[str]]) -> list[str]:
    """Rules without a story where their verdict comes up, or without one where it must not; a story lists them all."""
    told = list(stories)
    return [
        *(f"{rule}: no story where it holds" for rule in rules if not any(rule in verdicts for verdicts in told)),
        *(f"{rule}: no story where it must not" for rule in rules if all(rule in verdicts for verdicts in told)),
    ]


def test_every_rule_has_a_story_where_it_holds_and_one_where_it_must_not() -> None:
    rules = [rule.__module__.rsplit(".", 1)[-1].replace("_", "-") for rule in (*RULES, *ALARMS)]
    stories = [read_story(path) for path in sorted((ROOT / "tests/scenarios").glob("*.toml"))]

    told = [{*(change.verdict for change in story.verdict), *(story.alerts or ())} for story in stories]
    assert untold(rules, told) == []


def test_a_rule_without_its_stories_is_seen() -> None:
    assert untold(["idle"], [{"blind"}]) == ["idle: no story where it holds"]
    assert untold(["idle"], [{"idle"}]) == ["idle: no story where it must not"]
    assert untold(["idle"], [{"idle"}, {"blind"}]) == []


def test_every_command_file_is_in_the_list() -> None:
    prefix = "ddwatch.commands."
    listed = [command.module.removeprefix(prefix) for command in COMMANDS]

    assert all(command.module.startswith(prefix) for command in COMMANDS)
    assert unlisted("ddwatch.commands", room("ddwatch/commands"), listed) == []


def test_every_command_offers_what_the_front_door_calls() -> None:
    for command in COMMANDS:
        module = importlib.import_module(command.module)
        assert callable(module.add_arguments) and callable(module.run), command.name


def test_every_widget_has_its_test() -> None:
    assert unproved("ddwatch.widgets", room("ddwatch/widgets"), files_of("tests/tui/")) == []


def test_every_feed_has_its_test() -> None:
    assert unproved("ddwatch.feeds", room("ddwatch/feeds"), files_of("tests/")) == []


def test_every_module_of_discovery_has_its_test() -> None:
    assert unproved("ddwatch.discovery", room("ddwatch/discovery"), files_of("tests/discovery/")) == []


def test_every_source_and_export_has_its_test() -> None:
    for name in ("sources", "exports"):
        modules = room(f"sidecar/ddwatch_sidecar/{name}")
        assert unproved(f"ddwatch_sidecar.{name}", modules, files_of("tests/sidecar/")) == [], name


def test_every_module_of_the_core_has_its_test() -> None:
    assert unproved("ddwatch.core", room("ddwatch/core"), files_of("tests/")) == []


def test_every_test_file_holds_a_test_and_every_test_has_its_place() -> None:
    for path, text in tracked_texts().items():
        if re.fullmatch(r"tests/.*/test_\w+\.py", path):
            assert re.search(r"^\s*(async )?def test_", text, flags=re.MULTILINE), f"{path} tests nothing"
        elif path.startswith("tests/") and path.endswith(".py"):
            assert not re.search(r"^(async )?def test_", text, flags=re.MULTILINE), f"{path} is never collected"


def test_a_file_without_its_line_is_seen() -> None:
    modules = {"idle": "from ddwatch.core.rules.situation import Situation\n", "situation": ""}

    assert unlisted("ddwatch.core.rules", modules, ["idle"]) == []
    assert unlisted("ddwatch.core.rules", {**modules, "stray": ""}, ["idle"]) == [
        "ddwatch.core.rules.stray is in no list and nothing there uses it"
    ]
    assert unlisted("ddwatch.core.rules", modules, ["idle", "gone"]) == [
        "ddwatch.core.rules.gone is listed and does not exist"
    ]


def test_a_file_without_its_proof_is_seen() -> None:
    tests = {"tests/tui/test_plot.py": '"""Plots."""\n\nfrom ddwatch.widgets.axis import Axis\n'}
    modules = {"axis": "", "plot": "from ddwatch.widgets.canvas import Canvas\n", "canvas": "", "stray": ""}

    assert unproved("ddwatch.widgets", modules, tests) == ["stray"]


def test_a_head_outside_the_list_is_seen() -> None:
    class Module:
        FORMAT = FORMATS[0]
        other = "no head"

    assert formats_in({"decode": Module}) == {"decode.FORMAT": "decode"}


def test_the_rooms_are_where_they_are_looked_for() -> None:
    for folder in ("ddwatch/core/grammar", "ddwatch/core/rules", "ddwatch/commands", "ddwatch/widgets"):
        assert (ROOT / folder / "__init__.py").exists(), folder
        assert modules_under(folder) != [], folder

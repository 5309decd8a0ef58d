"""The README and the code say the same: metrics, commands, exit codes, flags, rooms and links."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
from ddwatch_sidecar.exports.metrics import METRICS, metric_table_markdown

from ddwatch.cli import COMMANDS, run
from ddwatch.core.exits import Exit
from ddwatch.core.snapshot import Flag
from tests.architecture.checkout import ROOT

README = ROOT / "README.md"
FOREIGN_UNITS = re.compile(r"_(ms|msec|milliseconds|us|minutes|hours|kb|mb|gb|mib|gib|percent|percentage|mhz|ghz)(_|$)")
BEGIN = "<!-- metrics: a test keeps this table equal to the code -->\n"
END = "<!-- /metrics -->"


def section(heading: str) -> str:
    """The text between a heading and the next one of the same rank."""
    text = README.read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def first_cells(table: str) -> list[str]:
    """The first cell of each row, without its backticks."""
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def test_the_metric_table_is_the_one_in_the_code(update_golden: bool) -> None:
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    table, after = rest.split(END)
    if update_golden:
        README.write_text(before + BEGIN + metric_table_markdown() + END + after, encoding="utf-8")
        return

    assert table == metric_table_markdown(), "run pytest --update-golden tests/architecture/test_readme.py"


def test_metric_names_obey_the_rules_of_prometheus() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"(ddwatch|process)_[a-z0-9_]+", metric.name), metric.name
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert not metric.name.endswith(("_count", "_sum", "_bucket")), metric.name
        assert not FOREIGN_UNITS.search(metric.name), metric.name
        assert not metric.name.startswith("ddwatch_ddwatch_"), metric.name
        assert metric.meaning and not metric.meaning.endswith("."), metric.name
        assert not {"le", "quantile", "job", "instance"} & set(metric.labels), metric.name
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_a_foreign_unit_would_be_seen() -> None:
    assert FOREIGN_UNITS.search("ddwatch_step_ms")
    assert FOREIGN_UNITS.search("ddwatch_memory_mib_used")
    assert not FOREIGN_UNITS.search("ddwatch_step_seconds")


def test_every_command_stands_in_the_command_table() -> None:
    words = {cell.removeprefix("ddwatch").split(" ")[-1] or "live" for cell in first_cells(section("Commands"))}

    assert {command.name for command in COMMANDS} - words == set()


def test_every_exit_code_is_explained() -> None:
    cells = first_cells(section("Commands"))

    assert [str(int(code)) for code in Exit] == [cell for cell in cells if cell.isdigit()]


def test_every_flag_is_explained() -> None:
    cells = first_cells(section("What the numbers mean"))

    assert [cell for cell in cells if cell not in ("flag", "---")] == list(get_args(Flag))


def test_the_answer_shown_for_a_pasted_speed_is_the_real_one(capsys: pytest.CaptureFixture[str]) -> None:
    command, answer = re.findall(r"    ddwatch (explain .*)\n\n((?:    .*\n)+)", section("The first minute"))[0]

    assert run(shlex.split(command)) == Exit.OK
    real = capsys.readouterr().out.splitlines()

    shown = [line.removeprefix("    ") for line in answer.splitlines()]
    assert [line for line in shown if line not in real] == []


def test_links_lead_somewhere() -> None:
    for page in (README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "docs/decisions/README.md"):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_table_of_rooms_names_folders_that_exist() -> None:
    for cell in re.findall(r"^\| [^|]+ \| `([^`]+/)[^/`]*`", section("Where does a new … go?"), flags=re.MULTILINE):
        assert Path(ROOT, cell).is_dir(), cell

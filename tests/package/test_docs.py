"""The pages for operators: every verdict has its section, every command parses, the metric reference is the code's."""

import re
from pathlib import Path
from typing import get_args

import pytest
from ddwatch_sidecar.exports.metrics import METRICS

from ddwatch.core.alert_orders import ALARMS
from ddwatch.core.exits import VERDICT_EXITS
from ddwatch.core.verdict import VerdictName
from docs.metrics import LABELS, OF_THE_SERVER, PAGE, groups, page
from tests.commands.test_help import parsed, words_of
from tests.conftest import ROOT, Golden

DOCS = ROOT / "docs"
PAGES = ("quick-start.md", "operator-guide.md", "metrics.md", "recording.md")
GUIDE = DOCS / "operator-guide.md"
PARTS = ("Means", "Looked at", "Do")
SEVERITIES = {0: {"ok"}, 1: {"notice"}, 2: {"page"}, 3: {"unknown"}}


def sections() -> dict[str, str]:
    """The guide by verdict."""
    parts = re.split(r"^## `([a-z-]+)`\n", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands_of(text: str) -> list[list[str]]:
    """Commands of ours in indented blocks and in backticks."""
    found = [line.strip() for line in re.findall(r"^    (\S.*)$", text, flags=re.MULTILINE)]
    found += [
        quoted for quoted in re.findall(r"`([^`\n]+)`", text) if re.match(r"(source <\()?ddwatch(-sidecar)? ", quoted)
    ]
    return [words for line in found for words in words_of(line.partition("  #")[0])]


def test_every_verdict_and_every_alarm_has_its_section_in_order() -> None:
    verdicts = list(get_args(VerdictName))

    assert [*sections()] == [*verdicts, *(name for name in ALARMS if name not in verdicts)]


@pytest.mark.parametrize("name", sections())
def test_a_section_says_what_it_means_what_was_looked_at_and_what_to_do(name: str) -> None:
    text = sections()[name]

    assert re.findall(r"^\*\*([^*]+)\.\*\* \S", text, flags=re.MULTILINE) == list(PARTS)
    assert commands_of(text.split("**Do.**")[1]), "no command of ours to run next"


def test_the_table_of_verdicts_says_the_severities_and_exit_codes_of_the_code() -> None:
    rows = re.findall(r"^\| \[`([a-z-]+)`\]\(#([a-z-]+)\) \| (\w+) \| (\d) \|", GUIDE.read_text("utf-8"), re.MULTILINE)

    assert [name for name, *_ in rows] == list(get_args(VerdictName))
    for name, anchor, severity, code in rows:
        assert anchor == name
        assert [int(found) for verdict, found in VERDICT_EXITS.items() if verdict == name] == [int(code)]
        assert severity in SEVERITIES[int(code)], name


@pytest.mark.parametrize("name", PAGES)
def test_every_command_on_the_pages_parses(name: str) -> None:
    for words in commands_of((DOCS / name).read_text(encoding="utf-8")):
        parsed(words)


def test_a_command_that_does_not_parse_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    (words,) = commands_of("So:\n\n    ddwatch check --no-such-flag   # at once\n")

    with pytest.raises(SystemExit):
        parsed(words)
    assert "--no-such-flag" in capsys.readouterr().err


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    anchors = {
        heading.lower().replace("`", "").replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        assert (DOCS / path).exists() if path else anchor in anchors, target


def test_the_readme_leads_to_the_pages() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert [name for name in PAGES if f"](docs/{name})" not in readme] == []


def test_the_metric_reference_is_written_from_the_table(golden: Golden) -> None:
    golden.check(PAGE, page())


def test_the_metric_reference_misses_no_metric_and_explains_every_label() -> None:
    text = Path(PAGE).read_text(encoding="utf-8")

    assert [metric.name for metric in METRICS if f"| `{metric.name}` |" not in text] == []
    assert sum(map(len, groups().values())) == len(METRICS)
    labels = {label for metric in METRICS if metric.name != OF_THE_SERVER for label in metric.labels}
    assert labels == set(LABELS)

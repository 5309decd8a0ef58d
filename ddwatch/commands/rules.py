"""`ddwatch rules`: prints the Prometheus alert and recording rules."""

import argparse
import json
import sys

from ddwatch.commands.alert_rules import groups
from ddwatch.core.exits import Exit

SCHEMA = "ddwatch.rules/1"
HEAD = """\
# Prometheus rules for the ddwatch sidecar, printed by `ddwatch rules`; check them with: promtool check rules FILE
# The scrape job is called ddwatch. Severities: page wakes someone, notice can wait, info is for graphs.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.description = (
        "Prints Prometheus rules: save them as a file and name it under rule_files. Each alert says what it means, by "
        "which numbers, and what to run next."
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of YAML")


def run(arguments: argparse.Namespace) -> int:
    """Prints the rules."""
    if arguments.json:
        sys.stdout.write(json.dumps({"schema": SCHEMA, "groups": groups()}) + "\n")
    else:
        sys.stdout.write(text())
    return Exit.OK


def text() -> str:
    """The rule file."""
    return HEAD + "groups:\n" + "".join(_item(group, "  ") for group in groups())


def _item(entry: dict[str, object], indent: str) -> str:
    """A mapping as an item of a YAML list."""
    return f"{indent}- {_mapping(entry, indent + '  ').lstrip()}"


def _mapping(entry: dict[str, object], indent: str) -> str:
    found = ""
    for key, value in entry.items():
        if isinstance(value, dict):
            found += f"{indent}{key}:\n{_mapping(value, indent + '  ')}"
        elif isinstance(value, list):
            found += f"{indent}{key}:\n" + "".join(_item(one, indent + "  ") for one in value)
        elif key == "expr":
            lines = "".join(f"{indent}  {line}\n" for line in str(value).splitlines())
            found += f"{indent}{key}: |-\n{lines}"
        else:
            # A JSON text is a YAML text.
            found += f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}\n"
    return found

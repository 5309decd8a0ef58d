"""The laws of style hold in every tracked file, and each law is seen to fail on seeded input."""

import ast

import pytest

from tests.architecture import laws
from tests.architecture.checkout import ROOT, tracked_paths, tracked_texts
from tests.architecture.laws import LAWS, Law

LARGEST = 1_500_000
"""Bytes of one tracked file."""

SOUND = {
    "ddwatch/core/thing.py": '"""Turns one thing into another."""\n\nimport ddwatch\n',
    "tests/core/test_thing.py": '"""A thing becomes another."""\n\nfrom ddwatch.core import thing\n\nthing.run()\n',
    "CHANGELOG.md": "# Changes\n\n## [Unreleased]\n\n",
    "docs/decisions/README.md": "- [0001](0001-thing.md)\n",
    "docs/decisions/0001-thing.md": "# Thing\n\n**Context** x\n\n**Choice** y\n\n**Consequence** z\n",
}
"""A small house that keeps all laws."""

PATCH = '"""It."""\n\nfrom ddwatch.core import wire\n\n\ndef test(monkeypatch):\n    monkeypatch.setattr('
POLL = '"""Polls."""\n\nimport time\n\nwhile time.time() < 5:\n    time.sleep(0.01)\n'
SEEDS: tuple[tuple[Law, str, str], ...] = (
    (laws.no_file_is_long, "tests/core/test_long.py", '"""Is long."""\n' + "x = 1\n" * 400),
    (laws.every_module_opens_with_its_reason, "ddwatch/core/mute.py", "x = 1\n"),
    (laws.every_module_opens_with_its_reason, "ddwatch/core/empty.py", ""),
    (laws.every_module_opens_with_its_reason, "ddwatch/core/stub.py", '"""parsing stuff"""\n'),
    (laws.every_module_opens_with_its_reason, "tests/core/test_stub.py", '"""Tests"""\n'),
    (laws.no_junk_drawers, "ddwatch/core/utils.py", '"""Holds this and that."""\n'),
    (laws.no_junk_drawers, "ddwatch/feeds/feed_manager.py", '"""Manages."""\n'),
    (laws.no_junk_drawers, "tests/helpers/clock.py", '"""Ticks."""\n'),
    (laws.tests_never_sleep, "tests/core/test_nap.py", '"""Naps."""\n\nimport time\n\ntime.sleep(1)\n'),
    (laws.tests_never_sleep, "tests/core/test_nap.py", '"""Naps."""\n\nfrom time import sleep\n\nsleep(1)\n'),
    (laws.our_parts_are_handed_in_not_patched, "tests/core/test_mock.py", '"""It."""\n\nfrom unittest import mock\n'),
    (laws.our_parts_are_handed_in_not_patched, "tests/core/test_mock.py", '"""It."""\n\nimport unittest.mock\n'),
    (
        laws.our_parts_are_handed_in_not_patched,
        "tests/core/test_mock.py",
        '"""It."""\n\nfrom unittest.mock import patch\n',
    ),
    (laws.our_parts_are_handed_in_not_patched, "tests/core/test_patch.py", PATCH + '"ddwatch.core.wire.iso", str)\n'),
    (laws.our_parts_are_handed_in_not_patched, "tests/core/test_patch.py", PATCH + 'wire, "iso", str)\n'),
    (laws.nothing_private, "README.md", "cd /" + "home/someone/ddwatch\n"),
    (laws.nothing_private, "README.md", "see https://" + "wiki.example.internal/page\n"),
    (laws.nothing_private, "Makefile", "pip install --" + "index-url https://example.org/simple\n"),
    (laws.changes_wait_under_unreleased, "CHANGELOG.md", "# Changes\n"),
    (laws.decisions_are_indexed, "docs/decisions/0002-other.md", SOUND["docs/decisions/0001-thing.md"]),
    (laws.decisions_are_indexed, "docs/decisions/0001-thing.md", "# Thing\n\nBecause.\n"),
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_house_keeps(law: Law) -> None:
    complaints = law(tracked_texts())

    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


@pytest.mark.parametrize(
    ("law", "path", "text"), SEEDS, ids=[f"{law.__name__}-{number}" for number, (law, _, _) in enumerate(SEEDS)]
)
def test_a_violation_is_seen(law: Law, path: str, text: str) -> None:
    assert law(SOUND) == []

    complaints = law({**SOUND, path: text})

    assert len(complaints) >= 1
    assert all(complaint.startswith(path) for complaint in complaints)


def test_a_loop_that_waits_for_a_condition_may_rest() -> None:
    assert laws.tests_never_sleep({"tests/core/test_poll.py": POLL}) == []


def test_every_law_is_seen_to_fail() -> None:
    assert {law for law, _, _ in SEEDS} == set(LAWS)
    stated = {
        node.name
        for node in ast.parse((ROOT / "tests/architecture/laws.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    assert stated == {law.__name__ for law in LAWS}


def test_no_tracked_file_is_huge_or_built() -> None:
    paths = tracked_paths()

    assert [path for path in paths if (ROOT / path).stat().st_size > LARGEST] == []
    assert [path for path in paths if path.endswith((".pyc", ".so", ".whl", ".coverage", ".orig", ".rej"))] == []

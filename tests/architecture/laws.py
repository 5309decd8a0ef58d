"""The laws of style as pure functions: files in, complaints out, so that each is also seen to fail on seeded input."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

Files = Mapping[str, str]
"""Path inside the repository -> text."""
Law = Callable[[Files], list[str]]

LONGEST = 400
"""Lines in a Python file; a longer one has two subjects."""
DRAWERS = re.compile(r"(^|_)(utils?|helpers?|common|manager|base|misc|stuff)(_|$)")
"""Names that invite anything and say nothing."""
OURS = ("ddwatch", "ddwatch_sidecar")

PRIVATE_PATHS = re.compile(r"(?<![\w.~}])/(?:home|Users|root|work)/[\w.-]")
"""Folders of one machine or one person; recorded logs keep theirs."""
PRIVATE_HOSTS = re.compile(r"https?://[\w.-]+\.(?:internal|local|lan|corp|intranet)\b")
CHOSEN_INDEX = re.compile(r"--(?:extra-)?index-url|PIP_(?:EXTRA_)?INDEX_URL")
"""Where packages come from is the machine's business."""

RECORDED = ("tests/golden/",)
"""Recorded input is kept as it was."""


def _python(files: Files) -> Iterator[tuple[str, str]]:
    return ((path, text) for path, text in files.items() if path.endswith(".py"))


def _tests(files: Files) -> Iterator[tuple[str, str]]:
    return ((path, text) for path, text in _python(files) if path.startswith("tests/"))


def no_file_is_long(files: Files) -> list[str]:
    """At most LONGEST lines per Python file, tests included."""
    counts = [(path, text.count("\n")) for path, text in _python(files)]
    return [f"{path}: {count} lines, more than {LONGEST}" for path, count in counts if count > LONGEST]


def every_module_opens_with_its_reason(files: Files) -> list[str]:
    """The first statement is a docstring whose first paragraph is a sentence."""
    complaints = []
    for path, text in _python(files):
        docstring = ast.get_docstring(ast.parse(text))
        if docstring is None:
            complaints.append(f"{path}: no docstring that says why it exists")
            continue
        first = " ".join(docstring.split("\n\n")[0].split())
        if not first[:1].strip() or (first[0].islower() and not first.startswith("ddwatch")) or first[-1] not in ".:!?":
            complaints.append(f"{path}: its docstring does not open with a sentence: {first!r}")
    return complaints


def no_junk_drawers(files: Files) -> list[str]:
    """No module or folder is named for nothing in particular."""
    return [
        f"{path}: {part!r} says nothing about what is inside"
        for path, _ in _python(files)
        for part in (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem)
        if DRAWERS.search(part)
    ]


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _waiting_loops(tree: ast.AST) -> set[ast.AST]:
    """All that stands inside a `while`: there a short sleep waits for a condition."""
    return {inner for loop in ast.walk(tree) if isinstance(loop, ast.While) for inner in ast.walk(loop)}


def tests_never_sleep(files: Files) -> list[str]:
    """A test waits for a condition, in a loop with a deadline; it never hopes that some time is enough."""
    complaints = []
    for path, text in _tests(files):
        if path.startswith("tests/bench/"):
            continue
        tree = ast.parse(text)
        waiting = _waiting_loops(tree)
        for call in _calls(tree):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
            gives_way = [getattr(argument, "value", None) for argument in call.args] == [0]
            if name == "sleep" and call not in waiting and not gives_way:
                complaints.append(f"{path}:{call.lineno}: sleeps instead of waiting for a condition")
    return complaints


def _our_names(tree: ast.Module) -> set[str]:
    """Names in a module that stand for something of ours."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                alias.asname or alias.name.split(".")[0] for alias in node.names if alias.name.split(".")[0] in OURS
            }
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def _root_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def our_parts_are_handed_in_not_patched(files: Files) -> list[str]:
    """No unittest.mock, and no monkeypatch.setattr on our own modules, classes or objects' modules."""
    complaints = []
    for path, text in _tests(files):
        tree = ast.parse(text)
        ours = _our_names(tree)
        for node in ast.walk(tree):
            imported = getattr(node, "module", None) if isinstance(node, ast.ImportFrom) else None
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [imported or ""]
            from_unittest = imported == "unittest" and any(alias.name == "mock" for alias in getattr(node, "names", []))
            if from_unittest or any(module == "mock" or module.startswith("unittest.mock") for module in modules):
                complaints.append(f"{path}:{getattr(node, 'lineno', 0)}: imports mock; hand the part in instead")
        for call in _calls(tree):
            if not (isinstance(call.func, ast.Attribute) and call.func.attr in ("setattr", "delattr") and call.args):
                continue
            target = call.args[0]
            written = target.value if isinstance(target, ast.Constant) and isinstance(target.value, str) else ""
            if written.split(".")[0] in OURS or _root_name(target) in ours:
                complaints.append(f"{path}:{call.lineno}: patches a part of ours; hand it in instead")
    return complaints


def nothing_private(files: Files) -> list[str]:
    """No file names a folder of one person, a host of one network or a package index."""
    complaints = []
    for path, text in files.items():
        if path.startswith(RECORDED):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            for kind, pattern in (
                ("a private folder", PRIVATE_PATHS),
                ("a private host", PRIVATE_HOSTS),
                ("a package index", CHOSEN_INDEX),
            ):
                if pattern.search(line):
                    complaints.append(f"{path}:{number}: names {kind}")
    return complaints


def changes_wait_under_unreleased(files: Files) -> list[str]:
    """The change log keeps a heading for what the next release will bring."""
    if "\n## [Unreleased]\n" in files.get("CHANGELOG.md", ""):
        return []
    return ["CHANGELOG.md: no heading `## [Unreleased]`"]


def decisions_are_indexed(files: Files) -> list[str]:
    """Every decision has its line in the index, and is short."""
    index = files.get("docs/decisions/README.md", "")
    complaints = []
    for path, text in files.items():
        name = PurePosixPath(path).name
        if not path.startswith("docs/decisions/") or name == "README.md":
            continue
        if f"({name})" not in index:
            complaints.append(f"{path}: not in docs/decisions/README.md")
        missing = [word for word in ("Context", "Choice", "Consequence") if f"**{word}**" not in text]
        if missing:
            complaints.append(f"{path}: does not say its {', '.join(missing).lower()}")
        if text.count("\n") > 25:
            complaints.append(f"{path}: longer than a decision record should be")
    return complaints


LAWS: tuple[Law, ...] = (
    no_file_is_long,
    every_module_opens_with_its_reason,
    no_junk_drawers,
    tests_never_sleep,
    our_parts_are_handed_in_not_patched,
    nothing_private,
    changes_wait_under_unreleased,
    decisions_are_indexed,
)

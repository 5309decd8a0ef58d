"""Reads which SGLang a process runs from the folder that pip left beside it, without importing anything."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddwatch.core.servers.command_line import is_python
from ddwatch.discovery.machine import Machine

INSTALLED = re.compile(r"sglang-(\d[\w.+!]{0,60})\.dist-info$")
PLACES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")


def version_of(machine: Machine, pid: int, words: Sequence[str]) -> str | None:
    """The version of the only SGLang of that environment; None where there is none to see, or more than one."""
    root = machine.proc / str(pid) / "root"
    for prefix in _prefixes(machine, pid, words):
        found: set[str] = set()
        for base in (root, Path("/")):
            try:
                folders = [
                    one for place in PLACES for one in (base / prefix.lstrip("/")).glob(f"{place}/sglang-*.dist-info")
                ]
            except (OSError, ValueError):
                continue
            found = {match[1] for folder in folders if (match := INSTALLED.match(folder.name)) is not None}
            if found:
                break
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def _prefixes(machine: Machine, pid: int, words: Sequence[str]) -> Iterator[str]:
    """Folders of environments that the process may run in, the surest first."""
    for word in words[:2]:
        parts = word.rsplit("/", 2)
        if len(parts) == 3 and parts[1] == "bin" and (is_python(word) or parts[2] == "sglang"):
            whole = machine.inside(pid, parts[0] or "/")
            if whole is not None:
                yield whole
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        value = machine.setting(pid, name)
        if value is not None and value.startswith("/"):
            yield value
    if words and "/" not in words[0]:
        for part in (machine.setting(pid, "PATH") or "").split(":")[:64]:
            if (
                part.startswith("/")
                and part.endswith("/bin")
                and (machine.proc / str(pid) / "root" / part[1:] / words[0]).exists()
            ):
                yield part.removesuffix("/bin") or "/"
                break
    yield from ("/usr/local", "/usr")

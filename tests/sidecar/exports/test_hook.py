"""The command hook with real processes: it gets the document, no shell, no secret, and ends with its whole group."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ddwatch_sidecar.exports.hook import CommandHook
from ddwatch_sidecar.exports.notify import Failed

PATIENCE = 20.0


def ran(*words: str, environment: dict[str, str] | None = None, timeout: float = PATIENCE) -> Failed | None:
    hook = CommandHook(words, environment or dict(os.environ), timeout_seconds=timeout, grace_seconds=0.1)
    return asyncio.run(hook.deliver(b'{"text": "hello"}'))


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_it_gets_the_document_on_its_standard_input_and_its_words_as_they_are(tmp_path: Path) -> None:
    program = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2] + sys.stdin.read())"

    assert ran(sys.executable, "-c", program, str(tmp_path / "got"), "$HOME; `id` ") is None
    assert (tmp_path / "got").read_text(encoding="utf-8") == '$HOME; `id` {"text": "hello"}\n'


def test_it_gets_no_secret_of_ours(tmp_path: Path) -> None:
    program = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(repr(sorted(os.environ)))"
    given = {"PATH": os.environ["PATH"], "DDWATCH_TOKEN": "x", "DDWATCH_WEBHOOK": "y"}

    assert ran(sys.executable, "-c", program, str(tmp_path / "got"), environment=given) is None
    got = (tmp_path / "got").read_text(encoding="utf-8")
    assert "PATH" in got and "DDWATCH" not in got


def test_its_exit_code_is_told() -> None:
    assert ran(sys.executable, "-c", "import sys; sys.exit(3)") == Failed("ended with 3", again=False)


def test_one_that_reads_nothing_is_fine() -> None:
    assert ran("true") is None


def test_one_that_is_not_there_is_told() -> None:
    assert ran("/nowhere/at/all") == Failed("cannot be started (no such file or directory)", again=False)
    assert ran("a\0b") == Failed("cannot be started (an argument holds a null byte)", again=False)


def test_one_that_ignores_the_request_to_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = f"""
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"
child = subprocess.Popen([sys.executable, "-c", stubborn])
path = pathlib.Path({str(pids)!r})
path.with_suffix(".part").write_text(f"{{os.getpid()}} {{child.pid}}")
path.with_suffix(".part").rename(path)
time.sleep(300)
"""
    failed = ran(sys.executable, "-c", program, timeout=3.0)

    assert failed == Failed("ran for 3 s and was ended", again=False)
    leader, child = (int(word) for word in pids.read_text(encoding="utf-8").split())
    until(lambda: not alive(leader) and not alive(child), "the end of the whole group")


def test_it_ends_when_the_sidecar_leaves(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = f"""
import os, pathlib, time
path = pathlib.Path({str(pids)!r})
path.with_suffix(".part").write_text(str(os.getpid()))
path.with_suffix(".part").rename(path)
time.sleep(300)
"""

    async def run() -> None:
        hook = CommandHook((sys.executable, "-c", program), os.environ, timeout_seconds=PATIENCE)
        task = asyncio.create_task(hook.deliver(b"{}"))
        deadline = time.monotonic() + PATIENCE
        while not pids.exists():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    until(lambda: not alive(int(pids.read_text(encoding="utf-8"))), "the end of the command")

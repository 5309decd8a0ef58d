"""Settings to messages: a real server and a real command get each incident, and no secret gets anywhere else."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from ddwatch_sidecar.cli import run
from ddwatch_sidecar.config import Settings, read_webhook, settle
from ddwatch_sidecar.exports.address import Address
from ddwatch_sidecar.exports.contract import Supply
from ddwatch_sidecar.metering import Meter
from ddwatch_sidecar.service import Publication
from ddwatch_sidecar.telling import Telling, tell
from msgspec.structs import replace

from ddwatch.core.alerts import Incidents
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.monitor import Monitor
from ddwatch.core.snapshot import Snapshot, Verdict

START = 1_777_636_800.0
SECRET = "T0-a-secret-part-of-the-path"
WRITE = "import pathlib, sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
PATIENCE = 20.0


def slow(at: float) -> Snapshot:
    verdict = Verdict(name="slow-step", severity="page", since=at, sentence="the step takes 31 ms more")
    incidents = Incidents()
    incidents.see(at, [verdict], lambda _: True)
    return Snapshot(seq=1, at=at, verdict=verdict, alerts=incidents.views(at))


async def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


def test_a_server_and_a_command_get_what_the_watch_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got: list[dict[str, Any]] = []
    written = tmp_path / "written"

    async def answer(request: web.Request) -> web.StreamResponse:
        got.append(await request.json())
        return web.Response()

    async def play() -> None:
        app = web.Application()
        app.router.add_post(f"/{SECRET}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        monitor = Monitor(started_at=START)
        publication = Publication(monitor.at(START))
        supply = Supply(publication.latest, monitor.history, monitor.tallies, Meter().figures, publication)
        settings = Settings(notify_command=(sys.executable, "-c", WRITE, str(written)))
        address = Address(f"http://127.0.0.1:{runner.addresses[0][1]}/{SECRET}")
        notifier = Telling(address, {}).notifier(settings, monitor, lambda: START)
        assert notifier is not None
        stopping = asyncio.Event()
        telling = asyncio.create_task(tell(notifier, supply, stopping))
        publication.publish(slow(START + 1))
        await until(lambda: got and written.exists() and written.read_text(encoding="utf-8"), "the first message")
        # What is found in the last moment is told all the same.
        first = publication.latest()
        over = replace(first.alerts[0], state="resolved", resolved_at=START + 30)
        publication.publish(replace(first, at=START + 100, alerts=(over,)))
        await until(lambda: len(got) == 2, "the second message")
        stopping.set()
        await asyncio.wait_for(telling, PATIENCE)
        await runner.cleanup()

    asyncio.run(play())
    lines = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    assert lines == got
    assert [(one["state"], one["alert"]) for one in got] == [("fired", "slow-step"), ("resolved", "slow-step")]
    assert capsys.readouterr().err == ""


def test_trouble_is_shown_exported_and_narrated_without_the_address(capsys: pytest.CaptureFixture[str]) -> None:
    async def play() -> Monitor:
        monitor = Monitor(started_at=START)
        publication = Publication(slow(START))
        supply = Supply(publication.latest, monitor.history, monitor.tallies, Meter().figures, publication)
        address = Address(f"http://lost.invalid/{SECRET}")
        notifier = Telling(address, {}).notifier(Settings(), monitor, lambda: START)
        assert notifier is not None
        telling = asyncio.create_task(tell(notifier, supply, asyncio.Event()))
        await until(lambda: monitor.at(START).sources, "the fault")
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        return monitor

    (source,) = asyncio.run(play()).at(START).sources
    assert (source.name, source.state, source.witness) == ("webhook", "lost", False)
    said = capsys.readouterr().err
    assert said.startswith("ddwatch-sidecar: webhook: cannot be reached")
    assert SECRET not in said and "invalid" not in said and SECRET not in source.detail


def test_nobody_is_told_where_nobody_asked() -> None:
    assert Telling(None, {}).notifier(Settings(), Monitor(started_at=START), lambda: START) is None


class TestSettings:
    def test_the_address_comes_from_a_file_or_a_variable(self, tmp_path: Path) -> None:
        told: list[str] = []
        file = tmp_path / "webhook"
        file.write_text(f"https://hooks.example.org/{SECRET}\na-token\n", encoding="utf-8")
        file.chmod(0o600)
        named = Settings(webhook_file=str(file))
        by_variable = {"DDWATCH_WEBHOOK": f"https://hooks.example.org/{SECRET}"}

        assert read_webhook(named, {}, told.append) == (f"https://hooks.example.org/{SECRET}", "a-token")
        assert read_webhook(Settings(), by_variable, told.append) == (f"https://hooks.example.org/{SECRET}", None)
        assert read_webhook(Settings(), {}, told.append) is None
        assert told == []
        file.chmod(0o644)
        read_webhook(named, {}, told.append)
        assert told == [f"the webhook file {file} can be read by others; run chmod 600 on it"]

    def test_a_bad_address_is_one_sentence_without_it(self, tmp_path: Path) -> None:
        file = tmp_path / "webhook"
        file.write_text(f"hooks {SECRET}", encoding="utf-8")
        for settings, environment in (
            (Settings(webhook_file=str(file)), {}),
            (Settings(), {"DDWATCH_WEBHOOK": SECRET}),
        ):
            with pytest.raises(CommandFailed) as failed:
                read_webhook(settings, environment, lambda _: None)
            assert failed.value.code == Exit.INPUT
            assert "must hold an address like" in failed.value.sentence and SECRET not in failed.value.sentence

    def test_a_file_says_all_of_it(self, tmp_path: Path) -> None:
        file = tmp_path / "sidecar.toml"
        file.write_text(
            'notify_command = ["/usr/bin/page", "--urgent"]\nnotify_severity = "page"\n'
            'quiet_hours = "22:00-07:00"\nnotify_repeat = "4h"\n',
            encoding="utf-8",
        )
        found = settle({}, {}, str(file))

        assert found.notify_command == ("/usr/bin/page", "--urgent")
        assert (found.notify_severity, found.quiet_hours) == ("page", "22:00-07:00")
        assert found.notify_repeat == "4h"

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (["--quiet-hours", "22-7"], "--quiet-hours must be hours like 22:00-07:00"),
            (["--notify-severity", "all"], "--notify-severity"),
            (["--notify-repeat", "often"], "--notify-repeat must be a time like 90s, 15m, 4h or 1d"),
            (["--webhook-file", "/nowhere"], "the webhook file /nowhere cannot be read"),
        ],
    )
    def test_wrong_words_get_one_sentence(
        self, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        try:
            code = run(["--log", "-", "--port", "0", *words], {})
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()

        assert code in (Exit.USAGE, Exit.INPUT) and said.out == ""
        assert sentence in said.err and said.err.count("\n") == 1

    def test_printed_settings_hold_no_address(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["--print-config", "--notify-command", "page", "--notify-command=--urgent"]

        assert run(words, {"DDWATCH_WEBHOOK": f"https://a/{SECRET}"}) == Exit.OK
        out = capsys.readouterr().out
        assert SECRET not in out and json.loads(out)["notify_command"] == ["page", "--urgent"]

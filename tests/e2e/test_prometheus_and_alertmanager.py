"""What is shipped for Prometheus and Alertmanager, on the real two: slow is told, its end, and that ddwatch is gone.

Nothing is changed in the shipped files but addresses and waiting times.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import httpx
import psutil

from ddwatch.commands.alert_rules import ALERTS
from ddwatch.core import wire
from ddwatch.core.exits import Exit
from ddwatch.core.expectation.profile_toml import write_profile
from tests.conftest import ROOT
from tests.core.detection.profiled import PROFILE
from tests.core.detection.traffic import MODEL
from tests.e2e.waiting import until
from tests.fakes.log_writer import LogWriter
from tests.sidecar.running import Sidecar, running

DEPLOY = ROOT / "sidecar" / "deploy"
TIME_SCALE = 5
"""The sidecar's time runs so many times as fast: what it waits for takes seconds."""
PATIENCE = 40.0
SLOWER = 1.5
CONTEXTS = range(3000, 12000)
"""Total context of the lines, inside the profile's evidence."""


class Service(LogWriter):
    """A server at work: decode lines as the profile expects them, or with steps that take longer."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.slower = 1.0
        self._random = Random(1)
        self._count = 0

    def works(self) -> bool:
        """Writes the next line; always true, so that it can stand in a condition that is asked again and again."""
        self._count += 1
        tokens = CONTEXTS[self._count % len(CONTEXTS)]
        seconds = MODEL.seconds(1, tokens) * self.slower * self._random.uniform(0.98, 1.02)
        self.line(
            f"[2026-05-01 12:00:00 TP0] Decode batch, #running-req: 1, #token: {tokens}, token usage: 0.01, "
            f"accept len: 2.90, accept rate: 0.06, cuda graph: True, "
            f"gen throughput (token/s): {2.9 / seconds:.2f}, #queue-req: 0"
        )
        return True


class Pager:
    """An HTTP server that remembers what Alertmanager posted, and where."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        told = self.told

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                told.append({"path": self.path, **message})
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Pager":
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def newest(self, alert: str) -> dict[str, Any] | None:
        """The last message about an alert."""
        return next((one for one in reversed(self.told) if one["groupLabels"]["alertname"] == alert), None)

    def has_been_told(self, alert: str, status: str) -> bool:
        """Whether the last word about an alert is this."""
        newest = self.newest(alert)
        return newest is not None and newest["status"] == status


class Server:
    """A Go server on a port of loopback that the system chose."""

    def __init__(self, process: "subprocess.Popen[bytes]", said: Path) -> None:
        self._process = process
        self._said = said
        self.address: str = until(self._listens, "a port", patience=PATIENCE, seen=self.words)

    def _listens(self) -> str:
        assert self._process.poll() is None, self.words()
        found = psutil.Process(self._process.pid).net_connections("tcp4")
        ports = [one.laddr.port for one in found if one.status == psutil.CONN_LISTEN]
        return f"127.0.0.1:{ports[0]}" if ports else ""

    def words(self) -> str:
        """The end of what it wrote."""
        return self._said.read_text(encoding="utf-8", errors="replace")[-4000:]


@contextmanager
def serving(folder: Path, program: Path, *words: str) -> Iterator[Server]:
    """The program with these words, gone afterwards."""
    said = folder / f"{program.name}.said"
    with said.open("wb") as file:
        process = subprocess.Popen(
            [program, "--web.listen-address=127.0.0.1:0", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=folder,
        )
    try:
        yield Server(process, said)
    finally:
        process.kill()
        process.wait(10)


def rewritten(text: str, **changes: tuple[str, str]) -> str:
    """A shipped file with a few values changed, each of which must be there once."""
    for name, (old, new) in changes.items():
        assert text.count(old) == 1, name
        text = text.replace(old, new)
    return text


def rules(waits: dict[str, str]) -> str:
    """What `ddwatch rules` prints, some alerts with a shorter wait."""
    printed = subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", "rules"], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    for alert, wait in waits.items():
        pattern = rf'(- alert: "{alert}"\n(?:(?!- alert:).*\n)*? +for: )"\w+"\n'
        printed, count = re.subn(pattern, rf'\g<1>"{wait}"\n', printed)
        assert count == 1, alert
    return printed


@contextmanager
def alerting(
    folder: Path, needs_command: Callable[[str], Path], sidecar: str, pager: str
) -> Iterator[tuple[Server, Server]]:
    """Prometheus and Alertmanager as shipped, but for addresses and waiting times."""
    prometheus, alertmanager = needs_command("prometheus"), needs_command("prometheus-alertmanager")
    routes = (DEPLOY / "alertmanager.yml").read_text(encoding="utf-8").replace("127.0.0.1:9098", pager)
    routes = rewritten(
        routes, wait=("group_wait: 10s", "group_wait: 0s"), interval=("group_interval: 1m", "group_interval: 1s")
    )
    (folder / "alertmanager.yml").write_text(routes, encoding="utf-8")
    (folder / "ddwatch-rules.yml").write_text(rules({"DdwatchSlowStep": "1s", "DdwatchAbsent": "6s"}), encoding="utf-8")
    files = ("--config.file=alertmanager.yml", "--storage.path=alertmanager", "--cluster.listen-address=")
    with serving(folder, alertmanager, *files) as managing:
        scrapes = rewritten(
            (DEPLOY / "prometheus.yml").read_text(encoding="utf-8"),
            evaluation=("evaluation_interval: 15s", "evaluation_interval: 500ms"),
            scrape=("scrape_interval: 15s", "scrape_interval: 1s"),
            target=("127.0.0.1:9477", sidecar),
            manager=("127.0.0.1:9093", managing.address),
        )
        (folder / "prometheus.yml").write_text(scrapes, encoding="utf-8")
        with serving(folder, prometheus, "--config.file=prometheus.yml", "--storage.tsdb.path=prometheus") as watching:
            yield watching, managing


def value(prometheus: Server, query: str) -> float | None:
    """What Prometheus answers; None without any series."""
    url = f"http://{prometheus.address}/api/v1/query"
    try:
        answer = httpx.get(url, params={"query": query}, timeout=10, trust_env=False)
    except httpx.TransportError:
        return None
    found = answer.json().get("data", {}).get("result", []) if answer.status_code == 200 else []
    return float(found[0]["value"][1]) if found else None


def verdict(sidecar: Sidecar) -> str:
    return wire.decode_snapshot(sidecar.get("/v1/snapshot").content).verdict.name


def moment(text: str) -> datetime:
    """Alertmanager writes nanoseconds."""
    return datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text).replace("Z", "+00:00"))


def test_a_slow_service_is_told_and_its_recovery_and_that_nobody_watches(
    tmp_path: Path, needs_command: Callable[[str], Path]
) -> None:
    profile = tmp_path / "ours.toml"
    profile.write_text(write_profile(PROFILE), encoding="utf-8")
    words = ("--tz", "UTC", "--profile", str(profile), "--no-record", "--no-learn", "--time-scale", str(TIME_SCALE))
    with (
        Service(tmp_path / "server.log") as service,
        Pager() as pager,
        running("--log", str(tmp_path / "server.log"), *words) as sidecar,
    ):
        instance = sidecar.url.removeprefix("http://")
        with alerting(tmp_path, needs_command, instance, pager.address) as (prometheus, alertmanager):

            def all_said() -> str:
                return "\n".join([str(pager.told), *sidecar.said, prometheus.words(), alertmanager.words()])

            def see(condition: Callable[[], object], what: str) -> None:
                until(lambda: service.works() and condition(), what, patience=PATIENCE, seen=all_said)

            see(lambda: verdict(sidecar) == "as-expected", "a service that is as expected")
            see(lambda: value(prometheus, "instance:ddwatch_step_seconds:mean5m"), "Prometheus to know the step time")
            # Until its first scrape, five seconds and more after its start, Prometheus holds ddwatch for absent.
            see(lambda: not pager.has_been_told("DdwatchAbsent", "firing"), "ddwatch to be seen")
            assert pager.newest("DdwatchSlowStep") is None

            service.slower = SLOWER
            see(lambda: pager.has_been_told("DdwatchSlowStep", "firing"), "the alert")
            told = pager.newest("DdwatchSlowStep")
            assert told is not None
            (fired,) = told["alerts"]
            (rule,) = (one for one in ALERTS if one.alert == "DdwatchSlowStep")
            assert told["path"] == "/page"
            assert fired["labels"] == {
                "alertname": "DdwatchSlowStep",
                "instance": instance,
                "job": "ddwatch",
                "severity": "page",
                "verdict": "slow-step",
            }
            annotations = fired["annotations"]
            assert annotations["summary"] == f"SGLang behind {instance} takes longer per step than it should"
            assert annotations["meaning"] == rule.meaning
            figures = re.fullmatch(
                r"measured over expected ([\d.]+)%, step ([\d.]+)ms, expected ([\d.]+)ms", annotations["evidence"]
            )
            assert figures is not None, annotations["evidence"]
            measured, step, expected = (float(figure) for figure in figures.groups())
            shortest, longest = (1000 * MODEL.seconds(1, tokens) for tokens in (CONTEXTS[0], CONTEXTS[-1]))
            assert 100 / SLOWER - 5 < measured < 105
            assert shortest * 0.9 < step < longest * SLOWER * 1.1 and shortest < expected < longest

            command = re.match(r"ddwatch (--once --url \S+) names the causes", annotations["next_command"])
            assert command is not None, annotations["next_command"]
            asked = subprocess.Popen(
                [sys.executable, "-m", "ddwatch.cli", *shlex.split(command[1])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            see(lambda: asked.poll() is not None, "the next command to end")
            answer, _ = asked.communicate()
            assert asked.returncode == Exit.PAGE and "slow" in answer, answer

            service.slower = 1.0
            see(lambda: pager.has_been_told("DdwatchSlowStep", "resolved"), "the end of the alert")
            told = pager.newest("DdwatchSlowStep")
            assert told is not None
            (resolved,) = told["alerts"]
            assert resolved["fingerprint"] == fired["fingerprint"]
            assert moment(resolved["endsAt"]) > moment(resolved["startsAt"]) >= moment(fired["startsAt"])
            see(lambda: verdict(sidecar) == "as-expected", "the service to be as expected again")

            sidecar.process.kill()
            see(lambda: pager.has_been_told("DdwatchAbsent", "firing"), "the alert that nobody watches")
            told = pager.newest("DdwatchAbsent")
            assert told is not None
            (absent,) = told["alerts"]
            assert told["path"] == "/notice"
            assert absent["labels"] == {
                "alertname": "DdwatchAbsent",
                "instance": instance,
                "job": "ddwatch",
                "severity": "notice",
            }
            assert absent["annotations"]["summary"] == f"Nobody watches SGLang: ddwatch on {instance} is absent"
            assert absent["annotations"]["next_command"].startswith("systemctl status ddwatch-sidecar")
            assert {one["groupLabels"]["alertname"] for one in pager.told} == {"DdwatchSlowStep", "DdwatchAbsent"}

"""Under seeded load ddwatch reads of a real SGLang what it did: by its log, its moments and the observer inside it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.commands.documents import held_against
from tests.e2e.real_sglang.server import Answer, serving
from tests.e2e.waiting import until
from tests.sidecar.running import Sidecar, running

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(600)]

ACCEPT_LENGTH = 0.02
STEP_TIME = 0.10


def ddwatch(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of ddwatch as an operator does."""
    return subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", *words], capture_output=True, text=True, timeout=120, check=False
    )


class Watched(NamedTuple):
    """What is left of one watched load."""

    log: Path
    rows: list[dict[str, Any]]
    """What `ddwatch steps` says of the log."""
    truth: list[list[int]]
    """Accept lengths of each verify step, by the observer inside the server."""
    moments: list[float]
    """What the moments counted during the load."""
    answers: list[Answer]
    snapshot: dict[str, Any]
    metrics: str
    events: list[dict[str, Any]]


def judged(sidecar: Sidecar) -> dict[str, Any] | None:
    """A snapshot whose figures are those of the moments."""
    snapshot = held_against("snapshot.json", sidecar.get("/v1/snapshot").text)
    return snapshot if snapshot["now"]["provenance"] == "moments" else None


def lines_of(sidecar: Sidecar) -> int:
    """Lines of the log that the sidecar has read."""
    sources = sidecar.get("/v1/snapshot").json()["sources"]
    lines: int = sum(source["lines"] for source in sources)
    return lines


def counted(metrics: str) -> float:
    """Steps that the page counts."""
    rows = [line for line in metrics.splitlines() if line.startswith("ddwatch_steps_total{")]
    return sum(float(row.rsplit(" ", 1)[1]) for row in rows)


def polled(sidecar: Sidecar, steps: float) -> str | None:
    """The page once it has counted about so many steps."""
    page = sidecar.get("/metrics").text
    return page if counted(page) > 0.5 * steps else None


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("real")
    with serving(folder) as server:
        # The first requests are slower: nothing of them is compared.
        server.load(1, users=2, requests=2, tokens=48)
        words = ("--log", str(server.log), "--sglang-url", server.url, "--no-record", "--no-learn", "--no-nvml")
        with running(*words) as sidecar:
            until(lambda: sidecar.get("/readyz").status_code == 200, "the sidecar to be ready")
            seen = len(server.verified())
            (before,) = server.moments()
            lines = server.log.read_bytes().count(b"\n")
            with ThreadPoolExecutor(1) as beside:
                load = beside.submit(server.load, 2, users=3, requests=8, tokens=160)
                snapshot = until(
                    lambda: judged(sidecar), "a reading of the moments under load", seen=sidecar.said.__str__
                )
                answers = load.result()
            (after,) = server.moments()
            truth = server.verified()[seen:]
            until(lambda: lines_of(sidecar) >= lines + len(truth), "the sidecar to have read the whole log")
            metrics = until(lambda: polled(sidecar, after[0]), "the sidecar to have asked for the last moments")
            events = sidecar.get("/v1/history?since=0").json()["events"]
        steps = ddwatch("steps", str(server.log), "--tz", "UTC")
    assert steps.returncode == 0, steps.stderr
    assert snapshot is not None and metrics is not None
    rows = [row for row in map(json.loads, steps.stdout.splitlines()) if row["source_line"] > lines]
    moments = [new - old for old, new in zip(before, after, strict=True)]
    yield Watched(server.log, rows, truth, moments, answers, snapshot, metrics, events)


def test_each_decode_line_is_one_verify_step_with_its_accept_length(watched: Watched) -> None:
    """At `--decode-log-interval 1`; the last line of a burst may still be on its way when the observer is read."""
    committed = [sum(step) for step in watched.truth]
    logged = [row["batch"] * row["accept_length"] for row in watched.rows]

    assert len(watched.rows) == pytest.approx(len(watched.truth), abs=3)
    assert sum(logged) / sum(row["batch"] for row in watched.rows) == pytest.approx(
        sum(committed) / sum(len(step) for step in watched.truth), rel=ACCEPT_LENGTH
    )
    assert 1.0 < sum(committed) / sum(len(step) for step in watched.truth) < 4.0


def test_the_requests_got_what_the_steps_committed(watched: Watched) -> None:
    tokens = sum(answer.completion_tokens for answer in watched.answers)
    committed = sum(sum(step) for step in watched.truth)

    # The prefill gives each request its first token; its last step may commit more than was asked for.
    assert len(watched.answers) == 24 and tokens == 24 * 160
    assert tokens - 24 <= committed <= tokens + 24 * 3


def test_log_and_moments_agree_on_accept_length_and_on_whole_steps(watched: Watched) -> None:
    steps, batch, microseconds, *_, tokens = watched.moments
    clean = [row for row in watched.rows if not row["flags"]]
    weight = sum(row["batch"] for row in clean)

    assert len(clean) > 150
    # Each leaves out other steps, and how many depends on what else the machine does.
    assert sum(row["batch"] * row["accept_length"] for row in clean) / weight == pytest.approx(
        tokens / batch, rel=2.5 * ACCEPT_LENGTH
    )
    by_batch: dict[int, list[float]] = {}
    for row in clean:
        by_batch.setdefault(row["batch"], []).append(row["step_seconds"])
    mean = sum(row["step_seconds"] for row in clean) / len(clean)
    assert mean == pytest.approx(microseconds / 1e6 / steps, rel=STEP_TIME), {
        size: (len(times), sum(times) / len(times)) for size, times in by_batch.items()
    }


def test_the_sidecar_shows_the_server_and_its_witnesses(watched: Watched) -> None:
    snapshot = watched.snapshot
    server = snapshot["server"]

    assert {source["name"]: (source["state"], source["unread"]) for source in snapshot["sources"]} == dict.fromkeys(
        ("log", "loads", "metrics"), ("up", 0)
    )
    assert (server["state"], server["model"], server["algorithm"]) == ("ready", "tiny", "STANDALONE")
    assert server["version"] and server["decode_log_interval"] == 1
    assert snapshot["unread_examples"] == []
    assert snapshot["verdict"]["severity"] != "page"
    assert snapshot["now"]["provenance"] == "moments"
    assert not [event for event in watched.events if event["kind"] == "source" and "differ" in event["text"]]
    assert 'ddwatch_source_up{source="loads"} 1' in watched.metrics


def test_the_sidecar_counts_the_steps_that_were_done(watched: Watched) -> None:
    """Steps between two polls that hold a prefill or a pause are not counted by the moments either."""
    assert counted(watched.metrics) == pytest.approx(watched.moments[0], rel=0.2)


def test_a_profile_is_fitted_from_its_log(watched: Watched, tmp_path: Path) -> None:
    profile = tmp_path / "tiny.toml"
    fitted = ddwatch("fit", str(watched.log), "-o", str(profile), "--tz", "UTC", "--json")

    assert fitted.returncode == 0, fitted.stderr
    assert held_against("fit.json", fitted.stdout)["samples"]["clean"] > 150
    assert ddwatch("profile", "check", str(profile)).returncode == 0


def test_an_endpoint_that_is_asked_by_others_answers_as_before(watched: Watched) -> None:
    """The load of the watch itself: a poll every two seconds, the page every five, and nothing else."""
    access = [line for line in watched.log.read_text(encoding="utf-8").splitlines() if '"GET /' in line]
    paths = {line.split('"GET ')[1].split(" ")[0] for line in access}

    assert httpx.URL("/v1/loads?include=all").raw_path.decode() in paths
    known = {"/v1/loads?include=all", "/metrics", "/server_info", "/get_server_info", "/model_info", "/get_model_info"}
    assert {path for path in paths if not path.startswith("/health")} <= known

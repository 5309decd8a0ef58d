"""Requests end while a real sidecar watches: its log and SGLang's own records tell of them, and each is one."""

import json
import shutil
from pathlib import Path

from ddwatch_sidecar.sources.requests import REMEDY

from ddwatch.core import wire
from ddwatch.core.snapshot import History
from tests.conftest import ROOT
from tests.e2e.live_log import LiveLog
from tests.e2e.waiting import until
from tests.sidecar.running import Sidecar, running

RECORDS = ROOT / "tests" / "golden" / "requests" / "sglang-request-metrics-20261201_12.log"


def history_of(sidecar: Sidecar) -> History:
    return wire.decode_history(sidecar.get("/v1/history").content)[0]


def tokens(sidecar: Sidecar) -> list[int | None]:
    return [request.completion_tokens for request in history_of(sidecar).requests]


def test_requests_reach_every_reader_without_a_word_of_their_text(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    with (
        LiveLog(tmp_path / "server.log") as log,
        running("--log", str(log.path), "--tz", "UTC", "--request-metrics", str(folder)) as sidecar,
    ):
        until(
            lambda: "waiting" in [s.state for s in wire.decode_snapshot(sidecar.get("/v1/snapshot").content).sources],
            "the folder to be waited for",
        )
        assert any(line.endswith(f"requests: there is no folder {folder}; {REMEDY}") for line in sidecar.said)
        folder.mkdir()
        partial = folder / "partial"
        shutil.copy(RECORDS, partial)
        partial.rename(folder / RECORDS.name)
        until(lambda: tokens(sidecar) == [32, 32, 32], "three requests", seen=lambda: str(tokens(sidecar)))
        meta = json.loads(RECORDS.read_text(encoding="utf-8").splitlines()[0])
        numbers = {name: meta[name] for name in ("prompt_tokens", "completion_tokens", "e2e_latency")}
        told_again = f"Finish: obj=GenerateReqInput(text='a secret'), out={{'meta_info': {numbers}}}"
        other = told_again.replace("'completion_tokens': 32", "'completion_tokens': 77")
        log.write(f"[2026-05-01 12:00:00] {told_again}\n[2026-05-01 12:00:00] {other}\n".encode())
        until(lambda: 77 in tokens(sidecar), "the request that only the log told of")
        assert tokens(sidecar) == [32, 32, 32, 77]

        snapshot = sidecar.get("/v1/snapshot").text
        accepted = wire.decode_snapshot(snapshot.encode()).accepted
        assert accepted is not None and accepted.requests == 2
        assert sum(accepted.steps) > 22
        served = snapshot + sidecar.get("/v1/history").text + sidecar.get("/metrics").text
        assert "secret" not in served and "fox" not in served and "my-rid" not in served
        (source,) = [each for each in wire.decode_snapshot(snapshot.encode()).sources if each.name == "requests"]
        assert (source.state, source.lines) == ("up", 3)
    assert any(line.endswith("requests: is read again") for line in sidecar.said)

"""`ddwatch doctor`: what can be observed here, the exact command for more, and a bundle that gives nothing away."""

import json
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddwatch.commands.doctor_bundle import masked
from ddwatch.core.exits import Exit
from tests.commands.documents import held_against
from tests.commands.said import Said, said
from tests.fakes.hostile import hostile, http
from tests.fakes.simulated import Simulated, simulated

NOWHERE = ("--sidecar", "http://127.0.0.1:9")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Simulated]:
    with simulated(tmp_path / "sglang.log", speed=20) as running:
        yield running


def sights(done: Said) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in held_against("doctor.json", done.out)["sights"]}


def test_a_server_with_a_log_can_be_judged(service: Simulated, capsys: pytest.CaptureFixture[str]) -> None:
    done = said(["doctor", service.url, "--log", str(service.log), *NOWHERE, "--json"], capsys)
    found = sights(done)
    assert done.code == Exit.OK
    assert {name: found[name]["state"] for name in ("server", "step times", "log", "single steps")} == {
        "server": "seen",
        "step times": "seen",
        "log": "seen",
        "single steps": "seen",
    }
    assert found["forward passes"]["command"] == "--enable-forward-pass-metrics"
    assert found["sidecar"]["state"] == "unseen"
    assert found["profile"]["state"] == "partly"
    text = said(["doctor", service.url, *NOWHERE], capsys)
    assert text.out.startswith("ddwatch can judge this service")
    assert "→ --enable-forward-pass-metrics" in text.out


def test_nothing_at_all_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = said(["doctor", "http://127.0.0.1:9", "--log", str(tmp_path / "no.log"), *NOWHERE, "--json"], capsys)
    assert done.code == Exit.UNJUDGED
    assert sights(done)["log"]["state"] == "unseen"
    assert "nothing listens" in sights(done)["server"]["detail"]


def test_old_servers_and_long_intervals_are_told_with_their_flag(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(asked: bytes) -> bytes:
        if asked.startswith(b"GET /get_server_info"):
            return http(json.dumps({"model_path": "m", "decode_log_interval": 40, "enable_metrics": False}))
        return http("{}", "404 Not Found")

    with hostile(answer) as url:
        done = said(["doctor", url, *NOWHERE, "--json"], capsys)
    found = sights(done)
    assert done.code == Exit.UNJUDGED
    assert "has no /v1/loads" in found["step times"]["detail"]
    assert found["single steps"]["command"] == "--decode-log-interval 1"
    assert found["Prometheus page"]["command"] == "--enable-metrics"


def test_the_bundle_holds_numbers_and_no_text(
    service: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "the patient said that"
    with service.log.open("a", encoding="utf-8") as log:
        log.write(f"[2026-05-01 12:00:00 TP0] Decode batch, #running-req: x, note: {secret}, #token: y\n")
        log.write(f"[2026-05-01 12:00:00] Finish: obj=GenerateReqInput(text='{secret} Decode batch')\n")
    bundle = tmp_path / "bundle.zip"
    done = said(["doctor", service.url, "--log", str(service.log), "--bundle", str(bundle), *NOWHERE], capsys)
    assert done.code == Exit.OK
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    with zipfile.ZipFile(bundle) as parts:
        texts = {name: parts.read(name).decode() for name in parts.namelist()}
    assert set(texts) == {"about.json", "doctor.json", "arguments.json", "records.jsonl", "snapshot.json"}
    everything = "".join(texts.values())
    assert secret not in everything
    assert str(tmp_path) not in everything
    assert service.url not in texts["doctor.json"]
    assert '"DecodeBatch"' in texts["records.jsonl"]
    assert json.loads(texts["arguments.json"])["arguments"]["speculative_algorithm"] == "DDTREE"


def test_masking_keeps_numbers_and_shape() -> None:
    assert masked({"a": 1, "b": "text", "c c": [True, None, "x"]}) == {"a": 1, "b": "…", "…": [True, None, "…"]}


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["ftp://x"], Exit.USAGE, "is not an address"),
        (["--sglang-key-file", "/nonexistent"], Exit.INPUT, "cannot read the key file"),
        (["127.0.0.1:9", *NOWHERE, "--bundle", "/nonexistent/b.zip"], Exit.INPUT, "cannot write the bundle"),
    ],
)
def test_wrong_words_get_one_sentence(
    words: list[str], code: Exit, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = said(["doctor", *words], capsys)
    assert done.code == code
    assert sentence in done.err

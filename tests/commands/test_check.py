"""`ddwatch check` against the simulated service as a process and against servers that misbehave."""

import json
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ddwatch.core.exits import Exit
from ddwatch.demo.scenarios import LOAD_SECONDS
from tests.commands.documents import held_against
from tests.commands.said import Said, said
from tests.fakes.hostile import hostile, http
from tests.fakes.simulated import Simulated, simulated

SPEED = 4.0
"""Step times come out a quarter of the truth; fast enough for a test, slow enough to be measured on a busy machine."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with simulated(tmp_path_factory.mktemp("service") / "sglang.log", speed=SPEED) as running:
        yield running


def profile_of(path: Path, milliseconds: float, **identity: object) -> str:
    """A calibrated profile with one step time for all contexts."""
    names = {"model": "moonshotai/Kimi-K2.6", "algorithm": "DDTREE", "tp": 8, **identity}
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in names.items())
    quantiles = ", ".join(
        f"{n} = {v}"
        for n, v in zip(
            ("p01", "p05", "p25", "p50", "p75", "p95", "p99"), (-0.15, -0.12, -0.05, 0, 0.05, 0.12, 0.15), strict=True
        )
    )
    path.write_text(
        f"""schema = 1
name = "mine"
calibrated = true
[identity]
{lines}
[judged]
attention_backend = "mine"
[evidence]
samples = 100
provenance = "log"
[[evidence.region]]
batch = [1, 1]
total_context = [32, 8192]
samples = 100
[step_time]
span = "step"
coefficients = [{milliseconds / 1e3}]
residual_quantiles = {{ {quantiles} }}
[[accept]]
class = "reasoning"
context = [64, 8192]
p1 = [1.6, 1.6]
p10 = [2.2, 2.2]
p50 = [2.9, 2.9]
p90 = [3.6, 3.6]
""",
        encoding="utf-8",
    )
    return str(path)


def checks(done: Said) -> dict[str, dict[str, Any]]:
    document = held_against("check.json", done.out)
    return {one["name"]: one for one in document["checks"]}


def test_a_healthy_server_passes_in_one_table_and_one_sentence(
    service: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = profile_of(tmp_path / "p.toml", 16.0)
    done = said(["check", service.url, "--profile", profile, "--json"], capsys)
    found = checks(done)
    assert done.code == Exit.OK, done.out
    assert json.loads(done.out)["verdict"] == "as-expected"
    for name in ("server", "arguments", "traffic", "generates", "warm-up", "reasoning parser", "tool parser"):
        assert found[name]["status"] == "pass", found[name]
    assert sum(name.startswith("decode at") for name in found) == 2
    assert found["profile"]["status"] == "warn"
    assert "attention_backend" in found["profile"]["detail"]
    assert "accept, reasoning" in found
    text = said(["check", service.url, "--profile", profile], capsys)
    assert text.out.startswith("✓ as expected · ")
    assert all(len(line) <= 80 for line in text.out.splitlines()[1:])
    assert "the same as at the check of" in text.out.replace("\n", " ").replace("  ", " ")


def test_steps_that_take_too_long_page(service: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = said(["check", service.url, "--profile", profile_of(tmp_path / "p.toml", 3.0), "--json"], capsys)
    assert done.code == Exit.PAGE, done.out
    assert json.loads(done.out)["verdict"] == "slow-step"
    assert "a step takes" in json.loads(done.out)["sentence"]


def test_a_profile_of_another_service_judges_nothing(
    service: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = said(["check", service.url, "--profile", profile_of(tmp_path / "p.toml", 3.0, tp=4), "--json"], capsys)
    assert done.code == Exit.UNJUDGED
    assert json.loads(done.out)["verdict"] == "learning"
    assert "tp: the profile has 4, the service 8" in checks(done)["profile"]["detail"]


def test_changed_arguments_are_said_in_words_and_secrets_are_not(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def server(arguments: dict[str, object]) -> Any:
        def answer(asked: bytes) -> bytes:
            path = asked.split(b" ")[1]
            if path == b"/server_info":
                return http(json.dumps({"model_path": "m/m", "version": "0.5.23", **arguments}))
            if path == b"/v1/models":
                return http('{"data": [{"id": "m"}]}')
            if path.startswith(b"/v1/loads"):
                return http('{"loads": [{"num_running_reqs": 2, "num_waiting_reqs": 1}]}')
            return http("{}", "404 Not Found")

        return answer

    port: dict[str, object] = {}

    def switch(asked: bytes) -> bytes:
        return bytes(server(port)(asked))

    with hostile(switch) as url:
        port.update({"api_key": "sk-secret", "attention_backend": "triton"})
        first = said(["check", url, "--json"], capsys)
        port.update({"api_key": "sk-other", "attention_backend": "flashinfer", "tool_call_parser": "kimi_k2"})
        second = said(["check", url, "--json"], capsys)
    assert first.code == second.code == Exit.UNJUDGED
    assert "none was remembered" in checks(first)["arguments"]["detail"]
    detail = checks(second)["arguments"]["detail"]
    assert "attention_backend triton → flashinfer" in detail
    assert "+tool_call_parser kimi_k2" in detail
    assert "api_key changed" in detail
    kept = list((home / ".local/state/ddwatch/starts").iterdir())
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
    assert not any(b"sk-" in path.read_bytes() for path in kept)
    # It was busy, so it was never asked for a single token.
    assert checks(second)["generates"]["status"] == "unknown"
    assert "2 running, 1 waiting" in checks(second)["traffic"]["detail"]


def test_a_busy_server_is_judged_by_its_sidecar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(tmp_path / "log", "dp", more=("--lead", str(LOAD_SECONDS + 30))) as running:
        words = ["-m", "ddwatch_sidecar.cli", "--log", str(running.log), "--listen", "127.0.0.1:0", "--announce"]
        sidecar = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE)
        try:
            assert sidecar.stdout is not None
            address = json.loads(sidecar.stdout.readline())["url"]
            deadline, pause = time.monotonic() + 30, threading.Event()
            while not httpx.get(f"{address}/v1/snapshot", trust_env=False).json()["now"]["throughput"]:
                assert time.monotonic() < deadline
                pause.wait(0.05)
            while not httpx.get(f"{running.url}/v1/loads", trust_env=False).json()["loads"][0]["num_running_reqs"]:
                assert time.monotonic() < deadline
                pause.wait(0.05)
            before = httpx.get(f"{running.url}/v1/loads", trust_env=False).json()["loads"][0]
            done = said(["check", running.url, "--sidecar", address, "--json"], capsys)
        finally:
            sidecar.kill()
            sidecar.communicate()
        log = running.log.read_text(encoding="utf-8")
    assert before["num_running_reqs"] > 0
    found = checks(done)
    assert "so it was not loaded" in found["traffic"]["detail"]
    assert found["live verdict"]["measured"]
    assert found["decode"]["status"] == "unknown"
    assert 'POST /generate HTTP/1.1" 200 OK' not in log.split("fired up and ready to roll!")[-1]


def test_after_idle_it_measures_again(service: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", service.url, "--after-idle", "1", "--profile", profile_of(tmp_path / "p.toml", 10.0), "--json"]
    found = checks(said(words, capsys))
    assert found["after 1 s idle"]["status"] == "pass"
    assert "ms/step" in found["after 1 s idle"]["expected"]


def test_the_key_opens_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    key.write_text("sesame\n", encoding="utf-8")
    with simulated(tmp_path / "log", speed=20, more=("--key", "sesame")) as running:
        closed = said(["check", running.url], capsys)
        opened = said(["check", running.url, "--sglang-key-file", str(key), "--json"], capsys)
        monkeypatch.setenv("DDWATCH_SGLANG_KEY", "wrong")
        wrong = said(["check", running.url], capsys)
    assert (closed.code, wrong.code) == (Exit.INPUT, Exit.INPUT)
    assert "--sglang-key-file" in closed.err
    assert checks(opened)["generates"]["status"] == "pass"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (http("<html>", kind="text/html"), "is a web page, not SGLang"),
        (http("nginx", "404 Not Found"), "is no SGLang server"),
        (http('{"hello": 1}'), "names no model"),
        (http("no json at all"), "is no SGLang server"),
        (http("", "302 Found", more="location: http://example.invalid/\r\n"), "redirects elsewhere"),
        (http("", "401 Unauthorized"), "wants SGLang's key"),
        (http("", "407 Proxy Authentication Required"), "a proxy stands before"),
        (http('{"model_path": "m"}'), "offers no model"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
    ],
)
def test_what_is_no_sglang_gets_one_sentence(answer: bytes, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with hostile(answer) as url:
        done = said(["check", url], capsys)
    assert done.code == Exit.INPUT
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


def test_tls_on_a_plain_port_is_said(service: Simulated, capsys: pytest.CaptureFixture[str]) -> None:
    done = said(["check", service.url.replace("http://", "https://")], capsys)
    assert done.code == Exit.INPUT
    assert "use http:// instead of https://" in done.err


def test_a_host_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    done = said(["check", "http://nowhere.invalid:30000"], capsys)
    assert done.code == Exit.INPUT
    assert "no host of this name" in done.err


def test_a_port_where_nothing_listens_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    done = said(["check", "127.0.0.1:9", "--json"], capsys)
    assert done.code == Exit.PAGE, done.out
    assert json.loads(done.out)["verdict"] == "down"
    assert "nothing listens" in checks(done)["server"]["detail"]


def test_a_server_that_is_cut_off_in_the_middle_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    whole = http('{"model_path": "m"}')
    with hostile(whole[:-5]) as url:
        done = said(["check", url, "--json"], capsys)
    assert done.code == Exit.PAGE, done.out
    assert json.loads(done.out)["verdict"] == "down"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--after-idle", "0"], "--after-idle is more than 0"),
        (["ftp://x"], "is not an address"),
        (["http://user:pass@x"], "is not an address"),
        (["--profile", "nonsense"], "there is no profile"),
        (["--sglang-key-file", "/nonexistent"], "cannot read the key file"),
    ],
)
def test_wrong_words_get_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = said(["check", *words], capsys)
    assert done.code in (Exit.USAGE, Exit.INPUT)
    assert sentence in done.err
    assert done.err.count("\n") == 1


def test_ctrl_c_prints_what_was_found_so_far(service: Simulated) -> None:
    words = [sys.executable, "-m", "ddwatch.cli", "check", service.url, "--after-idle", "600"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    # Progress without a terminal comes at once, then every ten seconds.
    assert "looking whether others" in process.stderr.readline()
    assert "idling for" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == Exit.INTERRUPTED
    assert "decode at" in out
    assert "the rest was not looked at" in out
    assert "Traceback" not in err

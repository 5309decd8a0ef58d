"""`ddwatch replay --headless --fail-on`: a verdict that ever held fails a run of CI, another one does not."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ddwatch.core.exits import Exit
from ddwatch.core.snapshot import Verdict
from ddwatch.demo.scenarios import LOAD_SECONDS, generate
from tests.commands.said import said
from tests.sidecar.exports.recordings import START, Watch, decode

BEGIN = 1_777_636_800.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service that loads, warms up, works and rests: nothing is wrong."""
    path = tmp_path_factory.mktemp("logs") / "sglang.log"
    lines = [line for _, line in generate("founding", 1, BEGIN, LOAD_SECONDS + 60)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ("slow-step", Exit.OK),
        ("slow-step,stalled,low-accept", Exit.OK),
        ("warming", Exit.PAGE),
        ("slow-step, warming", Exit.PAGE),
    ],
)
def test_only_a_verdict_that_held_fails_the_run(
    named: str, code: Exit, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = said(["replay", str(log), "--headless", "--json", "--tz", "UTC", "--fail-on", named], capsys)

    assert (ended.code, ended.err) == (code, "")
    summary = json.loads(ended.out.splitlines()[-1])["summary"]
    assert summary["exit_code"] == code and "warming" in summary["verdict_seconds"]


def test_a_recording_fails_the_same_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(tmp_path)
    watch.start()
    for second in range(30):
        watch.see([decode(START + second)])
    watch.end()
    held = said(["replay", str(tmp_path / "service.sqlite"), "--headless", "--json"], capsys).out
    verdict = json.loads(held.splitlines()[0])["verdict"]
    words = ["replay", str(tmp_path / "service.sqlite"), "--headless", "--fail-on"]

    assert said([*words, verdict], capsys).code == Exit.PAGE
    assert said([*words, "down"], capsys).code != Exit.PAGE


def test_a_recorded_verdict_is_told_once_while_only_its_cause_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = Watch(tmp_path)
    watch.start()
    watch.see([decode(START)])
    for second, degrees in enumerate((91, 92, 93, 92), 1):
        watch.now = START + second
        hot = Verdict(
            name="slow-step", severity="page", since=START, sentence="each step takes longer", cause=f"{degrees} °C"
        )
        watch.recorder.published(replace(watch.monitor.at(watch.now), verdict=hot))
    watch.now = START + 30.0
    watch.recorder.published(watch.monitor.at(watch.now))
    watch.end()

    out = said(["replay", str(tmp_path / "service.sqlite"), "--headless", "--json"], capsys).out
    *rows, last = map(json.loads, out.splitlines())
    names = [row["verdict"] for row in rows]
    assert names.count("slow-step") == 1, "a line per change of verdict"
    assert rows[names.index("slow-step")]["cause"] == "91 °C"
    assert last["summary"]["verdict_seconds"]["slow-step"] == 29.0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--headless", "--fail-on", "slow"], "'slow' is no verdict; there are down, stalled"),
        (["--headless", "--fail-on", ","], "',' is no verdict"),
        (["--fail-on", "slow-step"], "--fail-on needs --headless"),
    ],
)
def test_wrong_words_get_one_sentence(
    words: list[str], sentence: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = said(["replay", str(log), *words], capsys)

    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert sentence in ended.err and ended.err.count("\n") == 1

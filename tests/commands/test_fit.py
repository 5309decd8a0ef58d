"""`ddwatch fit`: a simulated service's log becomes a profile that knows its physics; thin evidence is refused."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ddwatch.core.exits import Exit
from ddwatch.core.expectation.quantiles import quantile
from ddwatch.demo.physics import step_seconds
from ddwatch.demo.scenarios import generate
from ddwatch.profiles.shelf import Shelf
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.core.expectation.worlds import Truth, log_lines, logistic, power, world

START = 1_777_636_800.0
LOGS = Path(__file__).parent.parent / "golden" / "logs"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half an hour of the founding story."""
    path = tmp_path_factory.mktemp("logs") / "sglang.log"
    lines = [line for _, line in generate("founding", 3, START, 1500.0)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_profile_of_a_log_knows_the_physics_of_its_service(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "deep" / "mine.toml"
    found = said(["fit", str(log), "-o", str(output), "--tz", "UTC"], capsys)
    assert (found.code, found.err) == (Exit.OK, "")
    assert found.out.startswith(f"profile mine written to {output}\n")
    assert max(len(line) for line in found.out.splitlines()[1:]) <= 80

    profile = Shelf().load(str(output))
    assert profile.calibrated
    assert profile.identity.algorithm == "DDTREE" and profile.identity.tp == 8
    assert profile.lag1 == pytest.approx(0.3, abs=0.15)
    for total in (2300, 3000, 4000, 5000, 5800):
        assert profile.covers(1, total)
        assert profile.step_time.seconds(1, total) == pytest.approx(step_seconds(1, total), rel=0.03)
    assert profile.classes() == ("high", "low")[::-1]
    low, high = profile.accept_curve("low"), profile.accept_curve("high")
    assert low is not None and low.at(4000).p50 == pytest.approx(2.9, rel=0.1)
    assert high is not None and high.at(2300).p50 == pytest.approx(7.4, rel=0.15)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert [path.name for path in output.parent.iterdir()] == ["mine.toml"]


def test_the_report_as_json_and_classes_from_logs_of_their_own(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine.toml"
    words = ["fit", str(log), "--class", f"chat={log}", "-o", str(output), "--name", "ours", "--tz", "UTC", "--json"]
    document = held_against("fit.json", said(words, capsys).out)
    assert document["profile"] == "ours"
    assert document["samples"]["kept"] <= document["samples"]["clean"] < document["samples"]["seen"]
    assert [row["class"] for row in document["accept"]] == ["overall", "chat"]
    assert 0.9 < document["band"]["low"] < 1.0 < document["band"]["high"] < 1.1


def test_explain_and_predict_work_with_what_was_fitted(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "mine.toml")
    said(["fit", str(log), "-o", output, "--tz", "UTC"], capsys)
    rate = 2.9 / step_seconds(1, 5000)
    good = said(["explain", f"{rate:.2f} tok/s at 5k ctx accept 2.9", "--profile", output], capsys)
    assert good.code == Exit.OK
    slow = said(["explain", f"{rate * 0.7:.2f} tok/s at 5k ctx accept 2.9", "--profile", output, "--json"], capsys)
    assert slow.code == Exit.PAGE
    assert held_against("explain.json", slow.out)["ratio"] == pytest.approx(0.7, rel=0.03)
    far = said(["explain", "0.1 tok/s at 90k ctx accept 2.9", "--profile", output], capsys)
    assert far.code == Exit.UNJUDGED
    predicted = said(["predict", "--context", "5000", "--class", "low", "--profile", output, "--json"], capsys)
    assert held_against("predict.json", predicted.out)["expected"]["tokens_per_second"] == pytest.approx(rate, rel=0.1)


def test_a_log_may_come_from_stdin(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "mine.toml"
    done = subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", "fit", "-", "-o", str(output), "--tz", "UTC"],
        input=log.read_bytes(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert Shelf().load(str(output)).evidence.source == "standard input"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["{tmp}/none.log", "-o", "{tmp}/x"], 66, "there is no file"),
        (["{tmp}", "-o", "{tmp}/x"], 66, "is a directory"),
        (["{logs}/05-v04-steady-decline-with-context.log", "-o", "{tmp}/x"], 66, "need 30"),
        (["{logs}/22-start-pt-shards-embedding.log", "-o", "{tmp}/x"], 66, "no decode line in"),
        (["{logs}/05-v04-steady-decline-with-context.log"], 64, "-o"),
        (["{log}", "-o", "{tmp}"], 64, "is a directory; -o names a file"),
        (["{log}", "-o", "{tmp}/x", "--tz", "Mars"], 64, "no time zone 'Mars'"),
        (["{log}", "-o", "{tmp}/x", "--class", "chat"], 64, "is not NAME=LOG"),
        (["{log}", "-o", "{tmp}/x", "--class", "overall={log}"], 64, "choose another class name"),
        (["{log}", "-o", "{tmp}/x", "--name", "a\nb", "--tz", "UTC"], 64, "name: must not hold control characters"),
        (["{log}", "-o", "/proc/no/x.toml", "--tz", "UTC"], 66, "cannot write /proc/no/x.toml"),
    ],
)
def test_what_cannot_be_fitted_is_one_sentence(
    words: list[str], code: int, sentence: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [word.format(tmp=tmp_path, logs=LOGS, log=log) for word in words]
    found = said(["fit", *filled], capsys)
    assert (found.code, found.out) == (code, "")
    assert sentence in found.err
    assert found.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("truth", [power, logistic], ids=lambda truth: truth.__name__)
def test_the_targets_hold_on_the_text_of_a_log(
    truth: Truth, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "sglang.log", tmp_path / "mine.toml"
    path.write_text("\n".join(log_lines(world(truth, 61), 250)) + "\n", encoding="utf-8")
    said(["fit", str(path), "-o", str(output), "--tz", "UTC"], capsys)

    profile, band = Shelf().load(str(output)), Shelf().load(str(output)).band()
    fresh = world(truth, 62)
    held_out = [
        item for item in (fresh.observation() for _ in range(1200)) if profile.covers(item.batch, item.total_context)
    ]
    expected = [profile.step_time.seconds(item.batch, item.total_context) for item in held_out]
    inside = sum(band.low <= e / item.step_seconds <= band.high for e, item in zip(expected, held_out, strict=True))
    misfit = sorted(abs(e / truth(i.batch, i.total_context) - 1.0) for e, i in zip(expected, held_out, strict=True))

    assert len(held_out) > 1100
    assert 0.87 <= inside / len(held_out) <= 0.93
    assert quantile(misfit, 0.5) <= 0.03 and quantile(misfit, 0.95) <= 0.05
    assert profile.classes() == ("low", "high")

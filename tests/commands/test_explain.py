"""`ddwatch explain`: the founding question in one glance, exit codes, and one sentence for what cannot be read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ddwatch.core.exits import Exit
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.core.expectation.documents import WHOLE

FOUNDING = "3239/2750 tok 32.2 t/s"


@pytest.fixture
def whole(tmp_path: Path) -> str:
    """A calibrated profile in a file."""
    path = tmp_path / "mine.toml"
    path.write_text(WHOLE, encoding="utf-8")
    return str(path)


def test_the_founding_question(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["explain", FOUNDING, "--accept", "2.9"], capsys)
    assert (found.code, found.err) == (Exit.OK, "")
    assert found.out == (
        "✓ as expected   32.2 tok/s   expected 27.4 (20.5 … 37.0)   ratio 1.18\n"
        "  this is what the context, the batch and the accept length give\n"
        "\n"
        "  understood    prompt 3239, completion 2750, 32.2 tok/s, accept 2.9, batch 1\n"
        "                3239/2750 taken as prompt/completion\n"
        "                batch 1: nothing else was running\n"
        "\n"
        "  from             138  what was remembered before the restart, inferred\n"
        "  accept length  ×0.39  2.9, was 7.4\n"
        "  context        ×0.50  3.24k … 5.99k tokens, was 2.3k · step 106 ms, was 53.3\n"
        "  batch          ×1.00  1, as then\n"
        "  unexplained    ×1.18\n"
        "  to              32.2  tok/s\n"
        "\n"
        "  accept        3.41 tokens per step would make it exactly as expected\n"
        "                typical of reasoning text (2.9)\n"
        "  what if       accept length 7.4 as in the reference    82.2 tok/s\n"
        "                context 2.3k as in the reference         63.9 tok/s\n"
        "                context cost halved                      50.6 tok/s\n"
        "\n"
        "  profile       kimi-k2.6-ddtree-8x-rtx-pro-6000, not calibrated: never accuses\n"
    )
    assert max(len(line) for line in found.out.splitlines()) <= 80


def test_the_founding_question_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["explain", FOUNDING, "--accept", "2.9", "--json"], capsys)
    assert found.code == Exit.OK
    document = held_against("explain.json", found.out)
    assert document["verdict"] == "as-expected"
    assert document["expected"]["low"] <= 30.0 <= document["expected"]["high"]
    assert document["factors"]["accept_length"] == pytest.approx(0.39, abs=0.005)
    assert 0.5 <= document["factors"]["context"] <= 0.6
    assert document["factors"]["unexplained_offset"] is None
    assert set(document) == {
        "schema", "profile", "understood", "measured", "expected", "ratio", "verdict", "implied_accept_length",
        "reference", "factors", "what_if",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "verdict"),
    [
        (["10 tok/s at 3k ctx", "--accept", "5"], Exit.PAGE, "slow-step"),
        (["0.1 tok/s at 90k ctx", "--accept", "5"], Exit.UNJUDGED, "learning"),
        (["44 tok/s at 3k ctx", "--accept", "1.1"], Exit.NOTICE, "low-accept"),
        (["120 tok/s at 3k ctx", "--accept", "3"], Exit.OK, "as-expected"),
        (["60", "tok/s", "--context", "2k", "--batch", "4"], Exit.OK, "as-expected"),
    ],
)
def test_the_exit_code_is_the_verdicts(
    words: list[str], code: int, verdict: str, whole: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(["explain", *words, "--profile", whole, "--json"], capsys)
    assert held_against("explain.json", found.out)["verdict"] == verdict
    assert found.code == code
    shown = said(["explain", *words, "--profile", whole], capsys)
    assert shown.code == code
    assert max(len(line) for line in shown.out.splitlines()) <= 80


def test_a_profile_without_reference_still_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bare.toml"
    path.write_text(WHOLE[: WHOLE.index("[[accept]]")], encoding="utf-8")
    document = held_against("explain.json", said(["explain", FOUNDING, "--profile", str(path), "--json"], capsys).out)
    assert document["reference"] is None
    shown = said(["explain", FOUNDING, "--profile", str(path)], capsys)
    assert "none in this profile" in shown.out


def test_the_paste_may_come_from_stdin() -> None:
    usage = {"usage": {"prompt_tokens": 3239, "completion_tokens": 2750}, "elapsed": 85.4}
    done = subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", "explain", "-", "--accept", "2.9", "--json"],
        input=json.dumps(usage).encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0
    document = held_against("explain.json", done.stdout.decode())
    assert document["understood"]["kind"] == "usage-json"
    assert document["measured"]["tokens_per_second"] == pytest.approx(32.2, abs=0.01)


def test_a_plain_terminal_gets_plain_signs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", "explain", FOUNDING, "--accept", "2.9"],
        capture_output=True,
        timeout=60,
        env={"PYTHONIOENCODING": "ascii", "HOME": "/nonexistent"},
    )
    assert done.returncode == 0
    assert b"accept length  x0.39" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["hello"], 66, "understood nothing; missing: a rate (32.2 tok/s) or the tokens generated and the seconds"),
        (["32 tok/s"], 66, "understood 32 tok/s; missing: how long the context was: add --context N"),
        (["-5 tok/s at 6k"], 66, "understood 6000 tokens of context; not understood: a rate of -5 tok/s; missing"),
        (["0 tok/s at 6k"], 66, "not understood: a rate of 0 tok/s"),
        (["NaN tok/s at 6k ctx"], 66, "not understood: a rate of NaN"),
        (["<html>502</html>"], 66, "understood nothing; not understood: '502'"),
        ([FOUNDING, "--accept", "0"], 64, "'0' is not a number above zero"),
        ([FOUNDING, "--accept", "-2"], 64, "'-2' is not a number above zero"),
        ([FOUNDING, "--accept", "nan"], 64, "'nan' is not a number above zero"),
        ([FOUNDING, "--batch", "0"], 64, "'0' is not a whole number"),
        ([FOUNDING, "--context", "x"], 64, "'x' is not a whole number"),
        ([FOUNDING, "--profile", "no-such"], 66, "there is no profile and no file no-such; profiles: kimi"),
        ([], 64, "TEXT"),
    ],
)
def test_what_cannot_be_explained_is_one_sentence(
    words: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(["explain", *words], capsys)
    assert (found.code, found.out) == (code, "")
    assert sentence in found.err
    assert found.err.count("\n") == 1

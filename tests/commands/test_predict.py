"""`ddwatch predict`: a context, a request or a table, in text and as JSON."""

from pathlib import Path

import pytest

from ddwatch.core.exits import Exit
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.core.expectation.documents import WHOLE


@pytest.fixture
def whole(tmp_path: Path) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(WHOLE, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("context", "rate"), [(64, 255), (1024, 218), (3072, 114), (5500, 51.4)])
def test_the_founding_figures(context: int, rate: float, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["predict", "--context", str(context), "--accept", "7.4", "--json"], capsys)
    assert found.code == Exit.OK
    document = held_against("predict.json", found.out)
    assert document["expected"]["tokens_per_second"] == pytest.approx(rate, rel=0.005)
    assert document["extrapolated"] is False
    assert document["output_tokens"] is None
    assert set(document) == {
        "schema", "profile", "context_tokens", "output_tokens", "batch", "accept_length", "step_seconds",
        "extrapolated", "expected",
    }  # fmt: skip


def test_a_request_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["predict", "--context", "3239", "--output", "2750", "--class", "reasoning"], capsys)
    assert found.out == (
        "100.4 s · 27.4 tok/s (20.5 … 37.0)\n"
        "  2.75k tokens after a prompt of 3.24k · mean step 106 ms · prefill not included\n"
        "  batch 1 · accept length 2.9 (class reasoning)\n"
        "  accept length taken from the nearest context where it is known\n"
        "  profile kimi-k2.6-ddtree-8x-rtx-pro-6000, not calibrated\n"
    )


def test_a_load_in_words(whole: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["predict", "--context", "90k", "--batch", "4", "--accept", "3", "--profile", whole], capsys)
    assert found.code == Exit.OK
    assert "for all 4 together" in found.out
    assert "extrapolated: at batch 4 the evidence is 100 to 8k tokens in total" in found.out
    request = said(["predict", "--context", "2k", "--output", "500", "--batch", "4", "--profile", whole], capsys)
    assert "for each request" in request.out and "of it prefill" in request.out and "(overall)" in request.out


def test_a_table(whole: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["predict", "--sweep", "--accept", "3", "--output", "500", "--profile", whole], capsys)
    rows = found.out.splitlines()
    assert "context" in rows[3] and "seconds" in rows[3]
    assert not rows[-1].endswith("extrapolated")
    assert max(len(row) for row in rows) <= 80
    far = said(["predict", "--sweep", "--accept", "3", "--output", "9000", "--profile", whole], capsys)
    assert far.out.splitlines()[-1].endswith("extrapolated")
    document = held_against("predict.json", said(["predict", "--sweep", "--profile", whole, "--json"], capsys).out)
    contexts = [row["context_tokens"] for row in document["sweep"]]
    assert contexts == [64 * 2**index for index in range(len(contexts))]
    rates = [row["expected"]["tokens_per_second"] for row in document["sweep"]]
    assert rates == sorted(rates, reverse=True)
    both = held_against(
        "predict.json", said(["predict", "--sweep", "--context", "100", "--profile", whole, "--json"], capsys).out
    )
    assert both["context_tokens"] == 100 and both["sweep"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ([], 64, "--context N is needed, or --sweep"),
        (["--context", "0"], 64, "'0' is not a whole number"),
        (["--context", "-5"], 64, "'-5' is not a whole number"),
        (["--context", "nan"], 64, "'nan' is not a whole number"),
        (["--context", "1.5"], 64, "'1.5' is not a whole number"),
        (["--context", "9" * 30], 64, "is not a whole number from 1 to"),
        (["--context", "5", "--accept", "0"], 64, "'0' is not a number above zero"),
        (["--context", "5", "--accept", "inf"], 64, "'inf' is not a number above zero"),
        (["--context", "5", "--accept", "2", "--class", "code"], 64, "exclude each other"),
        (["--context", "5", "--class", "poetry"], 64, "no class 'poetry'; it has predictable, code, reasoning"),
        (["--context", "5", "--profile", "no-such"], 66, "there is no profile and no file no-such"),
    ],
)
def test_what_cannot_be_predicted_is_one_sentence(
    words: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(["predict", *words], capsys)
    assert (found.code, found.out) == (code, "")
    assert sentence in found.err
    assert found.err.count("\n") == 1


def test_a_profile_that_knows_no_accept_length_asks_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bare.toml"
    path.write_text(WHOLE[: WHOLE.index("[[accept]]")], encoding="utf-8")
    found = said(["predict", "--context", "5", "--profile", str(path)], capsys)
    assert found.code == 64 and "knows no accept length: add --accept A" in found.err
    found = said(["predict", "--context", "5", "--class", "x", "--profile", str(path)], capsys)
    assert found.code == 64 and "knows no text class: use --accept A" in found.err


def test_a_context_beyond_the_models_limit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "short.toml"
    path.write_text(WHOLE.replace("[judged]", "[judged]\ncontext_length = 4096"), encoding="utf-8")
    found = said(["predict", "--context", "4000", "--output", "97", "--profile", str(path)], capsys)
    assert (found.code, found.err) == (64, "ddwatch predict: 4097 tokens are beyond the model's limit of 4096\n")
    table = held_against("predict.json", said(["predict", "--sweep", "--profile", str(path), "--json"], capsys).out)
    assert max(row["context_tokens"] for row in table["sweep"]) == 4096
    pasted = said(["explain", "32 tok/s at 5k ctx", "--profile", str(path)], capsys)
    assert pasted.code == 66 and "5000 tokens are beyond its limit of 4096" in pasted.err

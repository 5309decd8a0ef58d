"""`ddwatch profile`: what is on the shelf, what a profile says, and what is wrong with a file."""

from pathlib import Path

import pytest

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expectation.profile import Profile
from ddwatch.profiles.shelf import FOUNDING, Shelf, own_folder
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.core.expectation.documents import FOUNDING_TEXT, WHOLE


def put(name: str, text: str) -> Path:
    """A profile in the operator's own folder, which lies in the test's empty home."""
    own_folder().mkdir(parents=True, exist_ok=True)
    path = own_folder() / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.usefixtures("home")
def test_the_list_holds_own_and_built_in_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    put("mine", WHOLE)
    put("broken", "schema = 7")
    found = said(["profile", "list", "--json"], capsys)
    assert found.code == Exit.OK
    listed = {row["name"]: row for row in held_against("profile.json", found.out)["profiles"]}
    assert set(listed) == {"mine", "broken", FOUNDING}
    assert listed["mine"]["calibrated"] and listed["mine"]["origin"] == "own"
    assert listed[FOUNDING]["origin"] == "built-in" and listed[FOUNDING]["file"] is None
    assert not listed["broken"]["valid"] and "schema 7" in listed["broken"]["problem"]
    shown = said(["profile", "list"], capsys)
    assert "calibrated, 400 samples" in shown.out and "your own profiles live in" in shown.out


@pytest.mark.usefixtures("home")
def test_an_own_profile_takes_precedence_and_the_newest_is_the_default() -> None:
    shelf = Shelf()
    assert shelf.load(None).name == FOUNDING
    path = put(FOUNDING, WHOLE)
    assert shelf.load(None).name == "mine"
    assert shelf.load(FOUNDING).name == "mine"
    assert [entry.name for entry in shelf.entries()] == [FOUNDING]
    assert shelf.load(str(path)).name == "mine"


def test_show_in_words_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["profile", "show", FOUNDING], capsys)
    assert found.code == Exit.OK
    assert "not calibrated, 4 samples" in found.out
    assert "step time, ms" in found.out and "reasoning" in found.out
    text = said(["profile", "show", FOUNDING, "--toml"], capsys)
    assert text.out == FOUNDING_TEXT
    document = held_against("profile.json", said(["profile", "show", FOUNDING, "--json"], capsys).out)
    assert document["profile"]["name"] == FOUNDING
    assert document["profile"]["identity"]["tp"] is None


def test_show_of_a_fitted_profile_fits_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(WHOLE.replace("[judged]", "[judged]\n" + "\n".join(f"x{i} = {i}" for i in range(90))))
    found = said(["profile", "show", str(path)], capsys)
    assert max(len(line) for line in found.out.splitlines()) <= 80
    assert "version 0.5.12" in found.out and "90 more" in found.out


def test_check_names_every_offending_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(WHOLE.replace("1e-6, 2e-6", "-1, 2e-6").replace("tp = 8", "tpp = 8"))
    found = said(["profile", "check", str(path)], capsys)
    assert found.code == Exit.INPUT
    assert "step_time.coefficients[3]: must not be negative" in found.out
    assert "identity.tpp: is not a key of a profile" in found.out
    document = held_against("profile.json", said(["profile", "check", str(path), "--json"], capsys).out)
    assert not document["valid"]
    assert {problem["key"] for problem in document["problems"]} == {"step_time.coefficients[3]", "identity.tpp"}
    good = said(["profile", "check", FOUNDING], capsys)
    assert good.code == Exit.OK and "no problem found" in good.out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["show"], 64, "show needs a profile"),
        (["list", "x"], 64, "list takes no profile"),
        (["dance"], 64, "invalid choice"),
        (["show", "no-such"], 66, "there is no profile and no file no-such"),
        (["show", "/tmp"], 66, "/tmp is a directory, not a profile"),
        (["show", "a\x1b[31m"], 66, "there is no profile and no file a?[31m"),
    ],
)
def test_wrong_usage_is_one_sentence(
    words: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(["profile", *words], capsys)
    assert (found.code, found.out) == (code, "")
    assert sentence in found.err


def test_files_that_are_no_profiles(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "none")
    for name, data, sentence in (
        ("binary", b"\xff\xfe\x00", "it is not UTF-8 text"),
        ("html", b"<html>", "not TOML"),
        ("empty", b"", "not a profile: neither schema nor step_time"),
        ("huge", b"#" * 1_100_000, "longer than"),
        ("newer", b"schema = 9", "this profile has schema 9, this ddwatch reads schema 1"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(CommandFailed) as failure:
            shelf.load(str(path))
        assert sentence in failure.value.sentence
        assert failure.value.code == Exit.INPUT
    secret = tmp_path / "gone"
    secret.symlink_to(tmp_path / "nowhere")
    with pytest.raises(CommandFailed):
        shelf.load(str(secret))
    assert isinstance(shelf.load(None), Profile)

"""The log of a command line: what cannot be meant is wrong usage, what cannot be had is said at once."""

from pathlib import Path

import pytest

from ddwatch.commands.log_named import need_program, place_named
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.log_place import read_place


def test_a_place_that_cannot_be_meant_is_wrong_usage() -> None:
    with pytest.raises(CommandFailed) as failed:
        place_named("doctor", "journal:")
    assert failed.value.code == Exit.USAGE
    assert failed.value.sentence.startswith("ddwatch doctor: --log names no unit: write journal:UNIT")
    assert place_named("", "docker:kimi") == read_place("docker:kimi")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("journal:sglang", "ddwatch: there is no journalctl here to read journal:sglang with"),
        ("docker:kimi", "ddwatch: there is no docker and no podman here to read docker:kimi with"),
        (
            "command:no-such-program -f",
            "ddwatch: there is no no-such-program here to read command:no-such-program with",
        ),
    ],
)
def test_a_reading_without_its_program_says_so(
    text: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandFailed) as failed:
        need_program(read_place(text))
    assert (failed.value.sentence, failed.value.code) == (sentence, Exit.INPUT)
    (tmp_path / "podman").write_text("", encoding="utf-8")
    (tmp_path / "podman").chmod(0o755)
    need_program(read_place("docker:kimi"))
    need_program(read_place("/any/file"))

"""One source for each log that was named, under a name that is short, tells no argument, and is nobody else's."""

from pathlib import Path

import pytest
from ddwatch_sidecar.config import Settings, settle
from ddwatch_sidecar.exports.recorder import recording_name
from ddwatch_sidecar.log_sources import names, sources, watched
from ddwatch_sidecar.sources.child_lines import ChildLines
from ddwatch_sidecar.sources.log_file import LogFile
from ddwatch_sidecar.sources.standard_input import StandardInput

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.log_place import read_place

LOGS = (
    "/var/log/a.log",
    "journal:sglang",
    "docker:kimi",
    "command:ssh gpu01 --password hunter2",
    "command:/usr/bin/ssh gpu02",
    "journal:user/sglang",
    "-",
)


def test_each_kind_has_its_source_and_its_name() -> None:
    found = sources(Settings(log=LOGS))
    assert [type(source) for source in found] == [
        LogFile,
        *[ChildLines] * 5,
        StandardInput,
    ]
    assert [source.name for source in found] == [
        "log",
        "journal:sglang",
        "docker:kimi",
        "command:ssh",
        "command:ssh #2",
        "journal:user/sglang",
        "stdin",
    ]
    for source in found:
        source.close()


def test_several_files_go_by_their_paths() -> None:
    assert names([read_place(text) for text in ("/a", "/b", "docker:c")]) == ["log:/a", "log:/b", "docker:c"]


def test_what_is_watched_is_said_without_the_arguments_of_a_command() -> None:
    words = watched(Settings(log=LOGS, sglang_url="http://127.0.0.1:30000"))
    assert words == (
        "/var/log/a.log, journal:sglang, docker:kimi, command:ssh, command:ssh, journal:user/sglang, -, "
        "http://127.0.0.1:30000"
    )


def test_a_log_named_twice_is_wrong_usage() -> None:
    with pytest.raises(CommandFailed) as failed:
        sources(Settings(log=("docker:a", "docker:a")))
    assert failed.value.code == Exit.USAGE


@pytest.mark.parametrize(
    ("flags", "environment", "text", "sentence"),
    [
        ({"log": ["journal:"]}, {}, "", "--log names no unit: write journal:UNIT"),
        ({}, {"DDWATCH_LOG": "docker:"}, "", "DDWATCH_LOG names no container: write docker:NAME"),
        ({}, {}, 'log = ["command:"]', "sidecar.toml names no command: write 'command:CMD ARGS'"),
    ],
)
def test_every_layer_of_settings_refuses_what_cannot_be_meant(
    flags: dict[str, list[str]], environment: dict[str, str], text: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "sidecar.toml").write_text(text, encoding="utf-8")
    with pytest.raises(CommandFailed) as failed:
        settle(flags, environment, str(tmp_path / "sidecar.toml"))
    assert sentence in failed.value.sentence
    assert failed.value.code == Exit.USAGE


def test_a_recording_is_named_after_what_is_read_and_not_after_where_the_sidecar_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = recording_name(["docker:kimi"], None, 1)
    monkeypatch.chdir(tmp_path)
    assert recording_name(["docker:kimi"], None, 2) == before
    assert before.startswith("docker-kimi-")
    secret = recording_name(["command:ssh gpu01 --password hunter2"], None, 1)
    assert secret.startswith("command-ssh-") and "hunter2" not in secret
    assert secret != recording_name(["command:ssh gpu01"], None, 1)

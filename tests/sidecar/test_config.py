"""Settings: which layer wins, and one sentence for whatever is wrong."""

import os
from pathlib import Path
from typing import Any

import pytest
from ddwatch_sidecar.config import DEFAULT_LISTEN, READINGS, Settings, default_file, read_token, settle, zone_of

from ddwatch.core.exits import CommandFailed, Exit

UNKNOWN_ZONE = "tz in {{}} names no time zone known here: {!r} (write it like Europe/Berlin or UTC)"


def file(folder: Path, text: str) -> str:
    path = folder / "settings.toml"
    path.write_text(text)
    return str(path)


def failure(flags: dict[str, Any], environment: dict[str, str], config: str | None = None) -> CommandFailed:
    with pytest.raises(CommandFailed) as caught:
        settle(flags, environment, config)
    assert "\n" not in caught.value.sentence
    return caught.value


def test_every_setting_has_its_check_and_nothing_else_has() -> None:
    assert set(READINGS) == set(Settings.__struct_fields__)


def test_defaults_hold_when_nothing_is_said() -> None:
    assert settle({"log": None, "port": None}, {}, None) == Settings(listen=DEFAULT_LISTEN, catch_up=16.0)


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    config = file(tmp_path, 'log = "/file"\nlisten = "127.0.0.1:1"\ncatch_up = 1\ntz = "UTC"\n')
    environment = {"DDWATCH_LOG": "/environment", "DDWATCH_LISTEN": "127.0.0.1:2", "DDWATCH_TZ": "Europe/Berlin"}
    found = settle({"log": ["/flag"], "tz": None}, environment, config)

    assert found == Settings(log=("/flag",), listen="127.0.0.1:2", catch_up=1.0, tz="Europe/Berlin")


def test_the_file_of_the_user_is_read_when_none_is_named(tmp_path: Path) -> None:
    default_file().parent.mkdir(parents=True)
    default_file().write_text('log = ["/a", "/b"]\nsimulated = true\n')

    assert settle({}, {}, None) == Settings(log=("/a", "/b"), simulated=True)
    assert settle({}, {}, file(tmp_path, "")) == Settings()
    assert settle({}, {"DDWATCH_CONFIG": file(tmp_path, "port = 5")}, None) == Settings(port=5)


def test_every_setting_can_be_said_in_the_environment() -> None:
    environment = {
        "DDWATCH_LOG": "/x",
        "DDWATCH_LISTEN": "h:1",
        "DDWATCH_PORT": "0",
        "DDWATCH_TOKEN_FILE": "/t",
        "DDWATCH_ALLOW_HOST": "a, b",
        "DDWATCH_CATCH_UP": "0.5",
        "DDWATCH_TZ": "UTC",
        "DDWATCH_TIME_SCALE": "8",
        "DDWATCH_SIMULATED": "yes",
    }
    assert settle({}, environment, None) == Settings(
        log=("/x",),
        listen="h:1",
        port=0,
        token_file="/t",
        allow_host=("a", "b"),
        catch_up=0.5,
        tz="UTC",
        time_scale=8.0,
        simulated=True,
    )


def test_an_empty_variable_says_nothing() -> None:
    assert settle({}, {"DDWATCH_PORT": "", "DDWATCH_OTHER": "1"}, None) == Settings()


def test_an_unknown_key_is_named_with_its_file(tmp_path: Path) -> None:
    config = file(tmp_path, "prot = 1\n")
    wrong = failure({}, {}, config)

    assert wrong.sentence.startswith(f"unknown key 'prot' in {config}; there are log, listen, port")
    assert wrong.code == Exit.USAGE


def test_a_token_does_not_belong_into_the_settings(tmp_path: Path) -> None:
    config = file(tmp_path, 'token = "secret-secret"\n')
    wrong = failure({}, {}, config)

    assert wrong.sentence == f"{config} holds a token; put it into a file of its own and name it by token_file"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("port = 70000", "port in {} must be a port number from 0 to 65535"),
        ("port = 1.5", "port in {} must be a whole number"),
        ("port = true", "port in {} must be a port number from 0 to 65535"),
        ('catch_up = "much"', "catch_up in {} must be a number of MiB from 0 up"),
        ("catch_up = nan", "catch_up in {} must be a number of MiB from 0 up"),
        ("log = [1]", "log in {} must be a text or a list of texts"),
        ("listen = 9477", "listen in {} must be a text that is not empty"),
        ("simulated = 1", "simulated in {} must be true or false"),
        (
            'tz = "Mars/Olympus"',
            UNKNOWN_ZONE.format("Mars/Olympus"),
        ),
        (
            'tz = "../../etc/passwd"',
            UNKNOWN_ZONE.format("../../etc/passwd"),
        ),
        ("time_scale = 0", "time_scale in {} must be a number above 0, at most 10000"),
        ('metrics = "perhaps"', "metrics in {} must be true or false"),
        (
            'fpm = "http://127.0.0.1:5557"',
            "fpm in {} must be SGLang's --forward-pass-metrics-ipc-name: ipc:///run/fpm (without .0), a path, "
            "or tcp://host:port",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_file(tmp_path: Path, text: str, says: str) -> None:
    config = file(tmp_path, text)

    assert failure({}, {}, config).sentence == says.format(config)


def test_a_wrong_value_is_named_by_flag_and_variable() -> None:
    assert failure({"catch_up": "x"}, {}).sentence == "--catch-up must be a number of MiB from 0 up"
    assert failure({"time_scale": "-1"}, {}).sentence == "--time-scale must be a number above 0, at most 10000"
    assert failure({}, {"DDWATCH_PORT": "x"}).sentence == "DDWATCH_PORT must be a port number from 0 to 65535"


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    missing = failure({}, {}, str(tmp_path / "none.toml"))
    assert missing.sentence == f"the settings file {tmp_path / 'none.toml'} cannot be read: No such file or directory"
    assert missing.code == Exit.INPUT
    assert "cannot be read: Is a directory" in failure({}, {}, str(tmp_path)).sentence
    assert "is not TOML: " in failure({}, {}, file(tmp_path, "log = ")).sentence
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in failure({}, {}, str(tmp_path / "binary.toml")).sentence


def test_a_zone_is_looked_up() -> None:
    assert zone_of(None) is None
    assert str(zone_of("Europe/Berlin")) == "Europe/Berlin"


def token_file(folder: Path, text: str, mode: int = 0o600) -> Settings:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return Settings(token_file=str(path))


def test_a_token_comes_from_its_file_before_the_environment(tmp_path: Path) -> None:
    told: list[str] = []
    settings = token_file(tmp_path, "from-the-file-0123\n")

    assert read_token(settings, {"DDWATCH_TOKEN": "from-the-environment"}, told.append) == "from-the-file-0123"
    assert read_token(Settings(), {"DDWATCH_TOKEN": "from-the-environment"}, told.append) == "from-the-environment"
    assert read_token(Settings(), {}, told.append) is None
    assert told == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_token_that_others_can_read_is_warned_of(tmp_path: Path, mode: int) -> None:
    told: list[str] = []
    settings = token_file(tmp_path, "from-the-file-0123\n", mode)

    assert read_token(settings, {}, told.append) == "from-the-file-0123"
    assert told == [f"the token file {settings.token_file} can be read by others; run chmod 600 on it"]


def test_a_short_token_is_warned_of(tmp_path: Path) -> None:
    told: list[str] = []

    assert read_token(Settings(), {"DDWATCH_TOKEN": "short"}, told.append) == "short"
    assert told == ["the token in DDWATCH_TOKEN is short; use 16 characters or more"]


@pytest.mark.parametrize("text", ["", "\n", "two words", "two\nlines", "caf\u00e9", "x" * 5000])
def test_what_is_no_token_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    settings = token_file(tmp_path, text)
    with pytest.raises(CommandFailed) as caught:
        read_token(settings, {}, lambda _: None)

    assert caught.value.code == Exit.INPUT
    assert str(settings.token_file) in caught.value.sentence and "\n" not in caught.value.sentence
    assert not text.strip() or text not in caught.value.sentence


def test_a_token_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(CommandFailed, match=f"cannot be read: {why}"):
            read_token(Settings(token_file=os.fspath(path)), {}, lambda _: None)

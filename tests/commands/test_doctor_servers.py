"""`ddwatch doctor` on a machine where SGLang runs: it finds the server, its port and its log by itself."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from ddwatch.core.exits import Exit
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.fakes.standing_in import Standing, proc_of, standing_in

NOWHERE = ("--sidecar", "http://127.0.0.1:9")


def alone(folder: Path, monkeypatch: pytest.MonkeyPatch, *servers: Standing) -> None:
    """Lets only these servers run."""
    pids = [pid for server in servers for pid in server.family()]
    monkeypatch.setenv("DDWATCH_PROC", str(proc_of(folder / "proc", *pids)))


def test_a_server_is_examined_without_being_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "sglang.log"
    with log.open("ab") as file, standing_in("--api-key", "sk-1", "--log-requests", stderr=file) as server:
        alone(tmp_path, monkeypatch, server)
        done = said(["doctor", *NOWHERE, "--json"], capsys)
        text = said(["doctor", *NOWHERE], capsys).out
    document = held_against("doctor.json", done.out)
    found = {one["name"]: one for one in document["sights"]}
    assert done.code == Exit.OK
    assert found["server"]["source"] == f"{server.url}/server_info"
    assert found["log"]["source"] == str(log)
    assert found[f"pid {server.pid}"]["state"] == "seen"
    assert found["sidecar"]["command"] == f"ddwatch sidecar --log {log} --sglang-url {server.url}"
    (one,) = document["servers"]
    assert (one["pid"], one["url"], one["log"]["source"]) == (server.pid, server.url, str(log))
    assert (one["wants_key"], one["log_requests"], one["metrics"]) == (True, True, False)
    assert "sk-1" not in done.out
    assert f"✓ pid {server.pid}" in text


def test_a_log_whose_name_is_no_text_is_read_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / os.fsdecode(b"caf\xe9 \x1b]0;x.log")
    with log.open("ab") as file, standing_in(stderr=file) as server:
        alone(tmp_path, monkeypatch, server)
        done = said(["doctor", *NOWHERE, "--json"], capsys)
        text = said(["doctor", *NOWHERE], capsys).out
    (one,) = held_against("doctor.json", done.out)["servers"]
    assert one["log"]["source"].endswith("caf? \x1b]0;x.log")
    assert "\x1b" not in text


def test_every_server_is_listed_and_the_others_have_their_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with standing_in() as one, standing_in() as two:
        alone(tmp_path, monkeypatch, one, two)
        done = said(["doctor", two.url, *NOWHERE, "--json"], capsys)
    document = held_against("doctor.json", done.out)
    commands = [sight["command"] for sight in document["sights"]]
    assert f"ddwatch doctor {one.url}" in commands
    assert f"ddwatch doctor {two.url}" not in commands
    assert {server["pid"] for server in document["servers"]} == {one.pid, two.pid}
    assert [sight for sight in document["sights"] if "thrown away" in sight["detail"]]


def test_what_a_killed_server_left_behind_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with standing_in() as killed, standing_in() as server:
        left = [pid for pid in killed.family() if pid != killed.pid]
        monkeypatch.setenv("DDWATCH_PROC", str(proc_of(tmp_path / "proc", *left, *server.family())))
        document = held_against("doctor.json", said(["doctor", *NOWHERE, "--json"], capsys).out)
    (sight,) = [one for one in document["sights"] if one["name"] == "processes"]
    assert "left over from a server that is gone" in sight["detail"]
    assert sight["command"] == f"kill {' '.join(str(pid) for pid in sorted(left))}"


def test_no_server_is_said_with_what_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone(tmp_path, monkeypatch)
    document = held_against("doctor.json", said(["doctor", "http://127.0.0.1:9", *NOWHERE, "--json"], capsys).out)
    (sight,) = [one for one in document["sights"] if one["name"] == "processes"]
    assert (sight["state"], document["servers"]) == ("absent", [])
    assert "sglang serve" in sight["detail"]


def test_the_bundle_keeps_no_place_of_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "bundle.zip"
    with (tmp_path / "sglang.log").open("ab") as file, standing_in("--tp-size", "2", stderr=file) as server:
        alone(tmp_path, monkeypatch, server)
        said(["doctor", *NOWHERE, "--bundle", str(bundle)], capsys)
    with zipfile.ZipFile(bundle) as parts:
        text = parts.read("doctor.json").decode()
    assert str(tmp_path) not in text
    assert str(server.port) not in text.replace(f'"port":{server.port}', "")
    assert json.loads(text)["servers"][0]["arguments"]["tp_size"] == 2

"""On a real SGLang: check, calibrate and doctor ask it, and what the sidecar recorded meanwhile can be played again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.commands.documents import held_against
from tests.e2e.real_sglang.server import Background, Server, serving
from tests.e2e.real_sglang.test_agreement import ddwatch
from tests.e2e.real_sglang.test_restart import clean, within
from tests.sidecar.running import Sidecar, running

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(600)]


class House(NamedTuple):
    """A server that is left alone, and the sidecar beside it."""

    server: Server
    sidecar: Sidecar
    recordings: Path


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("probed")
    recordings = folder / "recordings"
    with serving(folder) as server:
        words = ("--log", str(server.log), "--sglang-url", server.url, "--no-learn", "--no-nvml")
        with running(*words, "--record", str(recordings)) as sidecar:
            with Background(server, 1):
                within(120, lambda: clean(sidecar) >= 3, "clean samples to record")
            yield House(server, sidecar, recordings)


def test_check_finds_a_server_that_generates(house: House) -> None:
    found = ddwatch("check", house.server.url, "--sidecar", house.sidecar.url, "--json")
    document = held_against("check.json", found.stdout)
    states = {check["name"]: check["status"] for check in document["checks"]}

    assert found.returncode in (0, 1, 3), found.stderr
    assert "fail" not in states.values(), document["sentence"]
    assert "pass" in states.values()


def test_calibrate_makes_a_profile_that_is_accepted(house: House, tmp_path: Path) -> None:
    profile = tmp_path / "tiny.toml"
    words = ("--minutes", "1", "--limit", "1024", "--classes", "predictable", "--json")
    found = ddwatch("calibrate", house.server.url, "-o", str(profile), *words)

    assert found.returncode == 0, found.stderr
    held_against("calibrate.json", found.stdout.splitlines()[-1])
    assert ddwatch("profile", "check", str(profile)).returncode == 0


def test_doctor_knows_what_is_there(house: House) -> None:
    found = ddwatch(
        "doctor", house.server.url, "--log", str(house.server.log), "--sidecar", house.sidecar.url, "--json"
    )

    assert found.returncode in (0, 1), found.stderr
    held_against("doctor.json", found.stdout)


def test_the_recording_is_played_again(house: House) -> None:
    def played() -> list[str]:
        found = ddwatch("replay", str(house.recordings), "--headless", "--json", "--tz", "UTC")
        return found.stdout.splitlines() if found.returncode in (0, 1, 2, 3) else []

    rows = [held_against("replay.json", line) for line in within(30, played, "a recording that can be played")]

    assert "summary" in rows[-1]
    exported = ddwatch("export", str(house.recordings), "--json")
    samples = [json.loads(line) for line in exported.stdout.splitlines()]
    assert {"log", "moments"} == {sample["provenance"] for sample in samples}

"""The logs that a real SGLang wrote play to their end, through the same command that an operator uses."""

import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest

from tests.conftest import ROOT

LOGS = ROOT / "tests" / "golden" / "logs"


def replayed(name: str, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, documents and stderr of a replay."""
    command = [sys.executable, "-m", "ddwatch.cli", "replay", str(LOGS / f"{name}.log"), "--headless", "--json"]
    done = subprocess.run(
        [*command, "--tz", "UTC", *words], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("name", ["real-0.5.23-plain", "real-0.5.23-ngram", "real-0.5.23-standalone"])
def test_every_line_is_read_and_every_decode_line_is_a_sample(name: str) -> None:
    text = (LOGS / f"{name}.log").read_bytes()
    code, documents, said = replayed(name)
    *changes, last = documents
    summary = last["summary"]
    assert said == ""
    assert (summary["lines"], summary["unread"]) == (text.count(b"\n"), 0)
    assert summary["samples"] == text.count(b"Decode batch, #running-req")
    assert 0 < summary["clean"] < summary["samples"]
    assert summary["events"] == {"start": 1, "ready": 1}
    assert code == summary["exit_code"]
    assert {document["schema"] for document in documents} == {"ddwatch.replay/1"}
    assert [change["at"] for change in changes] == sorted(change["at"] for change in changes)
    assert all(before["verdict"] != after["verdict"] for before, after in pairwise(changes))
    assert changes[0]["verdict"] == "warming"


def test_only_a_drafter_has_an_accept_length() -> None:
    lengths = {
        name: replayed(f"real-0.5.23-{name}")[1][-1]["summary"]["medians"]["accept_length"]
        for name in ("plain", "standalone")
    }
    assert lengths["plain"] is None
    assert lengths["standalone"] >= 1

"""Documents of whole stories obey the published schemas, from an empty watch to a lost line."""

import copy
import json
from datetime import timezone
from typing import Any

import jsonschema
import pytest

from ddwatch.core import wire
from ddwatch.core.grammar import LogReader
from ddwatch.core.monitor import Monitor
from ddwatch.core.positions import Positions
from ddwatch.core.records import Gap, SelfReading, SourceUp
from ddwatch.core.snapshot import Frame, History, Point, Sample, Snapshot, Verdict
from ddwatch.demo.scenarios import SCENARIOS, generate
from tests.architecture.checkout import ROOT

FOLDER = ROOT / "docs" / "schemas"
BEGIN = 1_777_636_800.0
SECONDS = 700.0


def validate(name: str, document: bytes | dict[str, Any]) -> None:
    """Validates a document against its published schema."""
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    plain = json.loads(document, parse_constant=refuse) if isinstance(document, bytes) else document
    jsonschema.Draft202012Validator(schema).validate(plain)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_the_documents_of_a_whole_story_obey_their_schemas(name: str) -> None:
    reader = LogReader(timezone.utc, BEGIN)
    monitor = Monitor(started_at=BEGIN, version="1.2.3", simulated=True)
    positions = Positions()
    monitor.accept(SourceUp(at=BEGIN, source="log"))
    asked, rows = BEGIN, 0
    for number, (at, line) in enumerate(generate(name, 1, BEGIN, SECONDS), start=1):
        for record in reader.read(line.encode(), at, number):
            monitor.accept(record)
            sample = positions.see(record)
            if sample is not None and rows % 100 == 0:
                validate("steps.json", wire.step_row(sample, stamped=reader.stamped))
            rows += sample is not None
        if at > asked + 50:
            asked = at
            snapshot = monitor.at(at)
            validate("snapshot.json", wire.encode_snapshot(snapshot))
            since = Frame(snapshot=snapshot, history=monitor.history(max(0, snapshot.seq - 50)))
            validate("stream.json", wire.encode_stream(since))
    monitor.accept(Gap(at=asked, source="log", reason="lost", detail="lines lost"))
    monitor.accept(SelfReading(at=asked, cpu_ratio=0.01, resident_bytes=1))
    last = monitor.at(asked + 100)

    validate("snapshot.json", wire.encode_snapshot(last))
    validate("history.json", wire.encode_history(monitor.history(), last.seq))
    assert rows > (0 if name == "server" else 100)


def test_an_empty_watch_obeys_them_too() -> None:
    verdict = Verdict(name="blind", severity="unknown", since=0.0, sentence="nothing yet")
    empty = Snapshot(seq=0, at=0.0, verdict=verdict)

    validate("snapshot.json", wire.encode_snapshot(empty))
    validate("history.json", wire.encode_history(History(), 0))
    validate("stream.json", wire.encode_stream(Frame(snapshot=empty)))
    validate("steps.json", wire.step_row(Sample(at=0.0), stamped=False))


def test_a_number_that_is_no_number_travels_as_null() -> None:
    history = History(points=(Point(seq=1, at=0.0, throughput=float("nan")),))

    validate("history.json", wire.encode_history(history, 1))


@pytest.mark.parametrize("spoil", ["missing", "unknown", "wrong version", "bare time"])
def test_a_spoilt_document_is_refused(spoil: str) -> None:
    verdict = Verdict(name="blind", severity="unknown", since=0.0, sentence="nothing yet")
    document = json.loads(wire.encode_snapshot(Snapshot(seq=0, at=0.0, verdict=verdict)))
    validate("snapshot.json", copy.deepcopy(document))
    match spoil:
        case "missing":
            del document["now"]["throughput"]
        case "unknown":
            document["now"]["speed"] = 1.0
        case "wrong version":
            document["schema"] = "ddwatch.snapshot/2"
        case "bare time":
            document["at"] = 0.0

    with pytest.raises(jsonschema.ValidationError):
        validate("snapshot.json", document)

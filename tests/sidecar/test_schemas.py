"""The published JSON Schemas: current, strict, and true of what the real sidecar sends."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from ddwatch.core import wire
from ddwatch.core.grammar.reader import LogReader
from ddwatch.core.history import Ring
from ddwatch.core.positions import Positions
from ddwatch.core.records import DecodeBatch
from ddwatch.core.snapshot import Frame, Point, UnreadExample, Verdict
from docs.schemas.write import schemas
from tests.fakes.clock import START
from tests.sidecar.exports.supplied import full_snapshot
from tests.sidecar.running import decode_line, running

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "schemas"
REAL_LOGS = sorted((ROOT / "tests" / "golden" / "logs").glob("real-*.log"))

FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time", raises=ValueError)
def is_time(value: object) -> bool:
    return isinstance(value, str) and wire.epoch(value) is not None


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((FOLDER / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=FORMATS)


def valid(name: str, document: object) -> None:
    validator(name).validate(document)


def test_the_files_are_what_the_types_say() -> None:
    written = schemas()
    on_disk = {name: (FOLDER / name).read_text() for name in written}

    assert on_disk == written, "run: make schemas"


def objects(schema: object) -> list[Mapping[str, Any]]:
    if isinstance(schema, list):
        return [found for item in schema for found in objects(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if "properties" in schema and schema.get("type") == "object" else []
    return own + [found for item in schema.values() for found in objects(item)]


@pytest.mark.parametrize("name", sorted(schemas()))
def test_every_object_is_closed_and_complete(name: str) -> None:
    found = objects(json.loads((FOLDER / name).read_text()))

    assert found
    for schema in found:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])


def test_what_a_field_means_is_in_the_schema() -> None:
    schema = json.loads((FOLDER / "snapshot.json").read_text())

    assert schema["properties"]["ratio"]["description"] == "Measured over expected tokens per second."
    assert schema["$defs"]["Sample"]["properties"]["context_tokens"]["description"] == "Mean per running request."


def test_a_snapshot_with_everything_in_it_is_valid() -> None:
    ring = Ring()
    ring.add_point(Point(seq=ring.next_seq(), at=START, throughput=1.0))
    ring.add_event(START, "restart", "notice", "restarted")
    verdict = Verdict(
        name="learning", severity="unknown", since=START, sentence="s", evidence={"samples": 3, "x": None}, cause="c"
    )
    example = UnreadExample(at=START, head="Decode batch", example="#running-req: <n>")
    shown = json.loads(wire.encode_snapshot(full_snapshot(ring.seq)))
    shown["notes"] = [wire.document(verdict)]
    shown["unread_examples"] = [wire.document(example)]

    valid("snapshot", shown)
    valid("history", json.loads(wire.encode_history(ring.since(0), ring.seq)))
    valid("stream", json.loads(wire.encode_stream(Frame(snapshot=full_snapshot(), history=ring.since(0)))))


@pytest.mark.parametrize(
    ("key", "value"),
    [("at", 1.0), ("at", "yesterday"), ("at", "2026-05-01T12:00:00"), ("seq", "1"), ("more", 1), ("ratio", "0.5")],
)
def test_what_is_not_a_snapshot_is_refused(key: str, value: object) -> None:
    shown = json.loads(wire.encode_snapshot(full_snapshot()))
    valid("snapshot", shown)
    with pytest.raises(ValidationError):
        valid("snapshot", {**shown, key: value})


def test_a_missing_field_is_refused() -> None:
    shown = json.loads(wire.encode_snapshot(full_snapshot()))
    del shown["ratio"]
    with pytest.raises(ValidationError):
        valid("snapshot", shown)


@pytest.mark.parametrize("stamped", [True, False])
def test_rows_of_steps_are_valid(stamped: bool) -> None:
    positions, reader = Positions(), LogReader(None, START)
    rows = []
    for number in range(1, 4):
        for record in reader.read(decode_line(number).encode(), None, number):
            assert isinstance(record, DecodeBatch)
            sample = positions.see(record)
            assert sample is not None
            rows.append(json.loads(json.dumps(wire.step_row(sample, stamped=stamped))))

    assert len(rows) == 3
    for row in rows:
        valid("steps", row)


@pytest.mark.parametrize("log", REAL_LOGS, ids=lambda path: path.stem)
def test_what_a_real_sidecar_says_of_a_real_server_is_valid(log: Path) -> None:
    with running("--log", str(log), "--tz", "UTC") as sidecar:
        valid("sidecar", sidecar.announced)
        valid("health", sidecar.get("/healthz").json())
        with httpx.stream("GET", sidecar.url + "/v1/stream", timeout=20, trust_env=False) as response:
            for line in response.iter_lines():
                if not line.startswith("data: "):
                    continue
                frame = json.loads(line.removeprefix("data: "))
                valid("stream", frame)
                if frame["snapshot"]["sources"] and frame["snapshot"]["sources"][0]["lines"]:
                    break
        valid("snapshot", sidecar.get("/v1/snapshot").json())
        history = sidecar.get("/v1/history").json()
        valid("history", history)
        assert history["points"] and history["events"]
        valid("health", sidecar.get("/readyz").json())
        for path in ("/nothing", "/v1/history?since=x"):
            valid("error", sidecar.get(path).json())
        assert sidecar.end() == 0

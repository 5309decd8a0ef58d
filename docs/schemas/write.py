"""Writes the JSON Schemas beside it from the types (`make schemas`); a test says that they are current."""

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from ddwatch_sidecar.exports.documents import ERROR_SCHEMA, HEALTH_SCHEMA, Failure, Health
from ddwatch_sidecar.run import ANNOUNCE_SCHEMA, Announcement

from ddwatch.core import alert_view, engine_view, hardware, hardware_view, snapshot, wire

FOLDER = Path(__file__).parent
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TIME = {"type": "string", "format": "date-time"}
SEQ = {"type": "integer", "description": "Newest sequence number: ask from here next."}

STRUCTS: dict[str, type[msgspec.Struct]] = {
    name: value
    for module in (
        alert_view,
        engine_view,
        hardware,
        hardware_view,
        snapshot,
        sys.modules[Failure.__module__],
        sys.modules[Announcement.__module__],
    )
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, msgspec.Struct) and value is not msgspec.Struct
}


def described(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring under each field of a struct."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[field.target.id] = " ".join(after.value.value.split())
    return found


def _timed(schema: dict[str, Any]) -> dict[str, Any]:
    """A time travels as text: the number in a field's schema becomes a date-time, null stays."""
    if schema.get("type") == "number":
        return dict(TIME)
    return {"anyOf": [dict(TIME) if kind.get("type") == "number" else kind for kind in schema["anyOf"]]}


def written(struct: type[msgspec.Struct], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a struct as it is written: every field present, nothing else, times as text."""
    words = described(struct)
    properties: dict[str, Any] = {}
    for name, kind in schema["properties"].items():
        kind = {key: value for key, value in kind.items() if key != "default"}
        if name in wire.TIME_KEYS:
            kind = _timed(kind)
        if name in words:
            kind["description"] = words[name]
        properties[name] = kind
    return {
        "type": "object",
        "description": " ".join((struct.__doc__ or "").split()),
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def components(*structs: type[msgspec.Struct]) -> dict[str, Any]:
    """The schemas of structs and of all that they hold, by name."""
    _, found = msgspec.json.schema_components(structs, ref_template="#/$defs/{name}")
    return {name: written(STRUCTS[name], schema) for name, schema in sorted(found.items())}


def document(
    schema: str, title: str, struct: type[msgspec.Struct], *, more: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The schema of a document that is one struct with its name and version in front."""
    parts = components(struct)
    top = parts.pop(struct.__name__)
    properties = {"schema": {"const": schema}, **(more or {})}
    properties |= {name: kind for name, kind in top["properties"].items() if name != "schema"}
    found = {"$schema": DIALECT, "title": title, **top, "properties": properties, "required": list(properties)}
    if parts:
        found["$defs"] = parts
    return found


def row() -> dict[str, Any]:
    """The schema of one row of `ddwatch steps --format jsonl`, which carries no schema of its own."""
    parts = components(snapshot.Sample)
    sample = parts.pop("Sample")
    names = wire.step_row(snapshot.Sample(at=0.0), stamped=True)
    properties = {name: sample["properties"][name] for name in names}
    properties["at"] = {"anyOf": [TIME, {"type": "null"}], "description": "null when the log has no times"}
    return {
        "$schema": DIALECT,
        "title": "ddwatch steps: one row per decode line",
        **sample,
        "properties": properties,
        "required": list(properties),
    }


def schemas() -> dict[str, str]:
    """File name to text."""
    documents: Iterable[tuple[str, dict[str, Any]]] = (
        ("snapshot", document(wire.SNAPSHOT_SCHEMA, "GET /v1/snapshot", snapshot.Snapshot)),
        ("history", document(wire.HISTORY_SCHEMA, "GET /v1/history", snapshot.History, more={"seq": SEQ})),
        ("stream", document(wire.STREAM_SCHEMA, "GET /v1/stream: data of an event `frame`", snapshot.Frame)),
        ("steps", row()),
        ("error", document(ERROR_SCHEMA, "Any answer that is not what was asked for, and an event `end`", Failure)),
        ("health", document(HEALTH_SCHEMA, "GET /healthz, and GET /readyz once ready", Health)),
        ("sidecar", document(ANNOUNCE_SCHEMA, "ddwatch sidecar --announce: one line on stdout", Announcement)),
    )
    return {f"{name}.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in documents}


def main() -> None:
    """Writes every file."""
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

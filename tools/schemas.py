"""Writes docs/schemas from the types in the code, so that the documents and their schemas cannot drift apart."""

import ast
import inspect
import json
import textwrap
from pathlib import Path
from typing import Any

import msgspec

from ddwatch.core import wire
from ddwatch.core.snapshot import Frame, History, Sample, Snapshot

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TIME = {"type": "string", "format": "date-time"}
Schema = dict[str, Any]


def field_words(kind: type) -> dict[str, str]:
    """The docstring under each field of a struct, where there is one."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    words = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                words[name] = inspect.cleandoc(said).replace("\n", " ")
    return words


def _as_time(schema: Schema) -> Schema:
    absent = any(option.get("type") == "null" for option in schema.get("anyOf", ()))
    return {"anyOf": [TIME, {"type": "null"}]} if absent else dict(TIME)


def _described(kind: type, schema: Schema) -> Schema:
    """Times as ISO 8601, every field always present, and the field's own words."""
    words = field_words(kind)
    properties = {}
    for name, field in schema["properties"].items():
        kept = {key: value for key, value in field.items() if key != "default"}
        kept = _as_time(kept) if name in wire.TIME_KEYS else kept
        properties[name] = {**kept, "description": words[name]} if name in words else kept
    return {**schema, "properties": properties, "required": list(properties)}


def _structs(kind: type) -> dict[str, type]:
    """All structs that a struct is made of, itself included, by name."""
    found: dict[str, type] = {}

    def visit(part: msgspec.inspect.Type) -> None:
        if isinstance(part, msgspec.inspect.StructType):
            if part.cls.__name__ in found:
                return
            found[part.cls.__name__] = part.cls
            for field in part.fields:
                visit(field.type)
        for name in ("types", "item_type", "item_types", "key_type", "value_type"):
            inner = getattr(part, name, ())
            for one in inner if isinstance(inner, tuple) else (inner,):
                visit(one)

    visit(msgspec.inspect.type_info(kind))
    return found


def document(kind: type, schema_id: str, more: Schema) -> Schema:
    """The schema of a document: a struct's fields beside `schema` and whatever else the document carries."""
    kinds = _structs(kind)
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    parts = {name: _described(kinds[name], part) for name, part in components.items()}
    main = parts.pop(kind.__name__)
    properties = {"schema": {"const": schema_id}, **more, **main["properties"]}
    return {
        "$schema": DIALECT,
        "title": schema_id,
        "description": main.get("description", ""),
        "type": "object",
        "properties": properties,
        "required": list(properties),
        **({"$defs": dict(sorted(parts.items()))} if parts else {}),
    }


def steps_row() -> Schema:
    """The schema of one row of `ddwatch steps`."""
    whole = document(Sample, wire.STEPS_SCHEMA, {})
    keys = [key for key in wire.step_row(Sample(at=0.0), stamped=True) if key != "schema"]
    properties = {key: whole["properties"][key] for key in keys}
    properties["at"] = {"anyOf": [TIME, {"type": "null"}], "description": "null when the log has no time stamps"}
    return {**whole, "description": "One decode line of a log.", "properties": properties, "required": keys}


def schemas() -> dict[str, Schema]:
    """Every schema by the name of its file."""
    seq = {"type": "integer", "minimum": 0, "description": "Ask for items after this one next."}
    return {
        "snapshot.json": document(Snapshot, wire.SNAPSHOT_SCHEMA, {}),
        "history.json": document(History, wire.HISTORY_SCHEMA, {"seq": seq}),
        "stream.json": document(Frame, wire.STREAM_SCHEMA, {}),
        "steps.json": steps_row(),
    }


def text(schema: Schema) -> str:
    """A schema as it stands in its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Writes every schema."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        (FOLDER / name).write_text(text(schema), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()

"""Holds a command's real output against its published schema."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

FOLDER = Path(__file__).parent.parent.parent / "docs" / "schemas"


def refuse(constant: str) -> None:
    """NaN and Infinity are Python's, not JSON's."""
    raise AssertionError(f"{constant} is not JSON")


def held_against(name: str, text: str) -> dict[str, Any]:
    """One JSON document as plain values; fails where it does not obey the schema of this name."""
    schemas = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
    registry: Registry[Any] = Registry().with_resources(
        (known, Resource.from_contents(schema)) for known, schema in schemas.items()
    )
    document: dict[str, Any] = json.loads(text, parse_constant=refuse)
    Draft202012Validator.check_schema(schemas[name])
    Draft202012Validator(schemas[name], registry=registry).validate(document)
    return document

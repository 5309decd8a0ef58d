"""The scrubbed bundle of `ddwatch doctor`: allow-listed arguments, records without any text, a snapshot."""

import os
import platform
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ddwatch import __version__
from ddwatch.core import wire
from ddwatch.core.exits import CommandFailed
from ddwatch.core.records import Record, Unread
from ddwatch.core.snapshot import Snapshot
from ddwatch.probes.server import Facts

MOST_RECORDS = 2000
MASK = "…"
PROCESS = re.compile(r"pid \d+$")
"""Names of sights that are about a process."""


def masked(value: Any) -> Any:
    """A value without any text: numbers, switches and structure stay."""
    if isinstance(value, str):
        return MASK
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) and key.isidentifier() else MASK: masked(inner) for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [masked(inner) for inner in value]
    return value if value is None or isinstance(value, (int, float, bool)) else MASK


def told(record: Record) -> dict[str, Any]:
    """A record as it may be sent: its kind and its numbers; the shape of an unread line, whose values are masked."""
    plain = msgspec.to_builtins(record)
    fields: dict[str, Any] = plain if isinstance(plain, dict) else {}
    if isinstance(record, Unread):
        return {"kind": "Unread", **fields}
    # Arguments are told once, apart.
    return {
        "kind": type(record).__name__,
        **{k: masked(v) for k, v in fields.items() if k not in ("arguments", "withheld")},
    }


def unplaced(snapshot: Snapshot) -> Snapshot:
    """A snapshot without the places of this machine: no paths of sources, no addresses, no events' words."""
    sources = tuple(
        replace(source, name=source.name.partition(":")[0], detail=MASK if source.detail else "")
        for source in snapshot.sources
    )
    server = replace(snapshot.server, address=None if snapshot.server.address is None else MASK)
    return replace(snapshot, sources=sources, server=server)


def unplaced_server(server: dict[str, Any]) -> dict[str, Any]:
    """A server that was found, without the places of this machine: its allow-listed arguments and switches."""
    return {key: value if key == "arguments" else masked(value) for key, value in server.items()}


def write_bundle(
    path: Path,
    document: dict[str, Any],
    facts: Facts | None,
    records: Sequence[Record],
    snapshot: Snapshot | None,
) -> None:
    """Writes the zip, 0600; raises CommandFailed."""
    arguments = None
    if facts is not None:
        arguments = {"version": facts.version, "arguments": facts.arguments, "others set": sorted(facts.withheld)}
    about = {"ddwatch": __version__, "python": platform.python_version(), "system": platform.system()}
    # Paths of people's machines and addresses stay here.
    scrubbed = {
        **document,
        "sights": [
            {
                **sight,
                "source": MASK,
                "command": None,
                # Of a process, what is said holds the file of its log and the user that runs it.
                "detail": MASK if PROCESS.match(sight["name"]) else sight["detail"],
            }
            for sight in document["sights"]
        ],
        "servers": [unplaced_server(server) for server in document["servers"]],
    }
    parts = {
        "about.json": msgspec.json.encode(about),
        "doctor.json": msgspec.json.encode(scrubbed),
        "arguments.json": msgspec.json.encode(arguments),
        "records.jsonl": b"".join(msgspec.json.encode(told(record)) + b"\n" for record in records[-MOST_RECORDS:]),
        "snapshot.json": b"null" if snapshot is None else wire.encode_snapshot(unplaced(snapshot)),
    }
    try:
        with (
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle,
        ):
            for name, data in parts.items():
                bundle.writestr(name, data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandFailed(f"ddwatch doctor: cannot write the bundle: {reason}") from error

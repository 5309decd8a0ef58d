"""What a recorder is handed, and how a batch of it becomes rows of a recording: all of it or nothing."""

import zlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ddwatch.core.hardware import GpuReading
from ddwatch.core.recording import VerdictChange, micros, point_row, request_row, whole
from ddwatch.core.records import ServerInfo, ServerStart
from ddwatch.core.request_view import FinishedRequest
from ddwatch.core.snapshot import Event, Point, Sample, Snapshot, SourceView
from ddwatch.core.wire import encode_snapshot
from ddwatch_sidecar.exports.recording_file import RecordingFile


class ServerSaid(Struct, frozen=True):
    """What a server told of its setup, through the allow-list."""

    at: float
    kind: str
    engine: str | None
    version: str | None
    arguments: dict[str, str | int | float | bool | None]
    withheld: tuple[str, ...]
    """Names only: the digests mean nothing to another process."""


class SourceSaid(Struct, frozen=True):
    """A source changed its state."""

    at: float
    view: SourceView


Item = Sample | Point | Event | VerdictChange | FinishedRequest | ServerSaid | SourceSaid | Snapshot | GpuReading


def server_said(
    at: float, kind: str, engine: str | None, version: str | None, record: ServerStart | ServerInfo
) -> ServerSaid:
    """What a start or a reading of the setup is kept as."""
    return ServerSaid(at, kind, engine, version, record.arguments, tuple(record.withheld))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def write(file: RecordingFile, items: Sequence[Item]) -> None:
    """Writes a batch in one transaction: all of it or nothing; raises sqlite3.Error."""
    try:
        with file.database:
            file.add_samples([item for item in items if isinstance(item, Sample)])
            _points(file, [item for item in items if isinstance(item, Point)])
            _events(file, [item for item in items if isinstance(item, Event)])
            _verdicts(file, [item for item in items if isinstance(item, VerdictChange)])
            _requests(file, [item for item in items if isinstance(item, FinishedRequest)])
            _server(file, [item for item in items if isinstance(item, ServerSaid)])
            _gpus(file, [item for item in items if isinstance(item, GpuReading)])
            _sources(file, [item for item in items if isinstance(item, SourceSaid)])
            _snapshots(file, [item for item in items if isinstance(item, Snapshot)])
            file.reached(max(item.at for item in items))
    except BaseException:
        file.forget_pending()
        raise


def _points(file: RecordingFile, points: list[Point]) -> None:
    points.sort(key=lambda point: point.at)
    keys = file.keys("stored_points", (point.at for point in points))
    file.insert("stored_points", [point_row(point, key) for point, key in zip(points, keys, strict=True)])


def _events(file: RecordingFile, events: list[Event]) -> None:
    """A newer wording takes the place of the event that it replaces."""
    file.database.executemany(
        "INSERT OR REPLACE INTO stored_events VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                file.run,
                event.seq if event.replaces is None else event.replaces,
                micros(event.at),
                event.kind,
                event.severity,
                event.text,
                event.count,
            )
            for event in events
        ],
    )


def _verdicts(file: RecordingFile, changes: list[VerdictChange]) -> None:
    changes.sort(key=lambda change: change.at)
    keys = file.keys("stored_verdicts", (change.at for change in changes))
    file.insert(
        "stored_verdicts",
        [
            (
                key,
                file.run,
                change.verdict.name,
                change.verdict.severity,
                micros(change.verdict.since),
                change.verdict.sentence,
                change.verdict.cause,
                _json(change.verdict.evidence),
                _json(change.verdict.next_steps),
                change.ratio,
                change.measured,
                change.expected,
                change.accept_length,
                change.step_seconds,
                change.context_tokens,
                change.batch,
            )
            for change, key in zip(changes, keys, strict=True)
        ],
    )


def _requests(file: RecordingFile, requests: list[FinishedRequest]) -> None:
    requests.sort(key=lambda request: request.at)
    keys = file.keys("stored_requests", (request.at for request in requests))
    rows = [request_row(request, key) for request, key in zip(requests, keys, strict=True)]
    file.insert("stored_requests", rows)


def _server(file: RecordingFile, said: list[ServerSaid]) -> None:
    said.sort(key=lambda each: each.at)
    keys = file.keys("stored_server", (each.at for each in said))
    file.insert(
        "stored_server",
        [
            (key, each.kind, each.engine, each.version, _json(each.arguments), _json(each.withheld))
            for each, key in zip(said, keys, strict=True)
        ],
    )


def _gpus(file: RecordingFile, readings: list[GpuReading]) -> None:
    """One row per card of each reading, a microsecond apart."""
    readings.sort(key=lambda reading: reading.at)
    cards = [(reading.at, card) for reading in readings for card in reading.cards]
    keys = file.keys("stored_gpu", (at for at, _ in cards))
    file.insert(
        "stored_gpu",
        [
            (
                key,
                card.index,
                card.uuid,
                card.lost,
                card.utilization_ratio,
                None if card.sm_clock_hertz is None else round(card.sm_clock_hertz),
                None if card.memory_clock_hertz is None else round(card.memory_clock_hertz),
                card.power_watts,
                card.power_limit_watts,
                card.temperature_celsius,
                whole(card.memory_used_bytes),
                whole(card.memory_total_bytes),
                whole(card.reasons),
                card.pcie_generation,
                card.pcie_width,
                whole(card.pcie_replays),
            )
            for (_, card), key in zip(cards, keys, strict=True)
        ],
    )


def _sources(file: RecordingFile, said: list[SourceSaid]) -> None:
    said.sort(key=lambda each: each.at)
    keys = file.keys("stored_sources", (each.at for each in said))
    file.insert(
        "stored_sources",
        [(key, each.view.name, each.view.state, each.view.detail) for each, key in zip(said, keys, strict=True)],
    )


def _snapshots(file: RecordingFile, snapshots: list[Snapshot]) -> None:
    snapshots.sort(key=lambda snapshot: snapshot.at)
    keys = file.keys("stored_snapshots", (snapshot.at for snapshot in snapshots))
    file.insert(
        "stored_snapshots",
        [(key, zlib.compress(encode_snapshot(snapshot))) for snapshot, key in zip(snapshots, keys, strict=True)],
    )

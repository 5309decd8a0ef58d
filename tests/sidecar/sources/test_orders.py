"""Acknowledgements and mutes reach the watch when their file changes; what is wrong with it is told once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from ddwatch_sidecar.sources.orders import OrdersFile, homely

from ddwatch.alert_desk import Desk
from ddwatch.core.records import OrdersSeen, Record, SourceFault, SourceUp

NOW = 1_777_636_800.0


def polled(endpoint: OrdersFile, now: float = NOW) -> Sequence[Record]:
    return asyncio.run(endpoint.poll(now))


def test_it_tells_all_orders_when_they_change_and_nothing_otherwise(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "alerts" / "service.json")
    endpoint = OrdersFile(desk)

    (first,) = polled(endpoint)
    assert isinstance(first, OrdersSeen) and first.orders == () and first.keeping.channel == desk.read().channel
    assert polled(endpoint) == []
    desk.change(lambda orders: orders.muted("slow-step", NOW, NOW + 60))
    (muted,) = polled(endpoint)
    assert isinstance(muted, OrdersSeen) and muted.orders == desk.read().orders
    assert polled(endpoint) == []


def test_a_file_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "service.json")
    endpoint = OrdersFile(desk)
    polled(endpoint)
    desk.change(lambda orders: orders.muted("slow-step", NOW, NOW + 60))
    polled(endpoint)
    desk.remove()

    (again,) = polled(endpoint)
    assert isinstance(again, OrdersSeen) and again.orders == () and again.keeping.channel == desk.read().channel


def test_what_is_wrong_with_it_is_told_once_and_what_was_asked_stands(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "service.json")
    endpoint = OrdersFile(desk)
    polled(endpoint)
    changed = desk.change(lambda orders: orders.muted("slow-step", NOW, NOW + 60))
    polled(endpoint)
    whole = desk.path.read_bytes()
    desk.path.write_bytes(whole[:20])

    fault, seen = polled(endpoint)
    assert isinstance(fault, SourceFault) and fault.source == "acknowledgements"
    assert fault.reason.startswith("acknowledgements and mutes cannot be read: service.json cannot be read")
    assert isinstance(seen, OrdersSeen) and (seen.orders, seen.keeping.channel) == (changed.orders, None)
    assert polled(endpoint) == []
    desk.path.write_bytes(whole)
    up, seen = polled(endpoint)
    assert isinstance(up, SourceUp) and isinstance(seen, OrdersSeen) and seen.keeping.channel == changed.channel


def test_where_nothing_can_be_asked_it_still_says_where_the_recording_lies(tmp_path: Path) -> None:
    recording: list[Path] = []
    hours = {NOW: True, NOW + 1: False}
    endpoint = OrdersFile(None, recording=lambda: recording[-1] if recording else None, quiet=hours.__getitem__)

    (first,) = polled(endpoint)
    assert isinstance(first, OrdersSeen)
    assert (first.keeping.channel, first.keeping.recording, first.keeping.quiet_hours) == (None, None, True)
    recording.append(tmp_path / "a.sqlite")
    (opened,) = polled(endpoint)
    assert isinstance(opened, OrdersSeen) and opened.keeping.recording == str(tmp_path / "a.sqlite")
    (loud,) = polled(endpoint, NOW + 1)
    assert isinstance(loud, OrdersSeen) and loud.keeping.quiet_hours is False


def test_a_passing_file_goes_with_its_sidecar_and_another_stays(tmp_path: Path) -> None:
    for passing in (True, False):
        desk = Desk(tmp_path / "service.json")
        endpoint = OrdersFile(desk, passing=passing)
        polled(endpoint)
        asyncio.run(endpoint.close())
        assert desk.path.exists() is not passing


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    fault, seen = polled(OrdersFile(Desk(tmp_path / "file" / "service.json")))

    assert isinstance(fault, SourceFault) and isinstance(seen, OrdersSeen) and seen.keeping.channel is None


def test_a_home_is_not_named(tmp_path: Path) -> None:
    assert homely(Path.home() / "a" / "b.sqlite") == "~/a/b.sqlite"
    assert homely(tmp_path / "b.sqlite") == str(tmp_path / "b.sqlite")

"""The whole sidecar: what is acknowledged in the file is not told again until that ends, and a mute tells nobody."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddwatch.alert_desk import Desk, desk_of
from ddwatch.core.wire import epoch
from tests.sidecar.broken_drafter import Broken, broken


@contextmanager
def told(folder: Path) -> Iterator[tuple[Broken, Desk]]:
    """The service with the file of its sidecar, which stays behind."""
    with broken(folder, "--no-record", "--alerts", str(folder / "alerts")) as service:
        keeping = service.snapshot().keeping
        assert keeping is not None and keeping.recording is None
        desk = desk_of(keeping.channel, folder / "alerts")
        assert desk is not None and desk.path.name.startswith("sglang.log-")
        yield service, desk
    assert desk.path.exists()


def test_an_acknowledgement_stops_the_repeats_until_it_ends(tmp_path: Path) -> None:
    with told(tmp_path) as (service, desk):
        service.work(1.15, lambda: len(service.told()) >= 2, "a repeat")
        assert [one["again"] for one in service.told()[:2]] == [False, True]

        (alert,) = (alert for alert in service.snapshot().alerts if alert.name == "low-accept")
        until = service.snapshot().at + 160.0
        desk.change(lambda orders: orders.acknowledged([(alert.name, alert.incident)], until - 160.0, until, "seen"))
        service.work(1.15, lambda: service.state() == "acknowledged", "the acknowledgement")
        acknowledged_at = service.snapshot().at
        assert service.held("low-accept")
        assert 'ddwatch_alerts_total{alert="low-accept"} 1.0' in service.sidecar.get("/metrics").text

        service.work(1.15, lambda: epoch(service.told()[-1]["at"]) >= until, "what is told at the end of it")
        assert service.told()[-1]["again"] is True
        times = [epoch(one["at"]) for one in service.told()]
        assert [at for at in times if acknowledged_at < at < until] == []
        assert len({one["incident"] for one in service.told()}) == 1


def test_a_mute_tells_nobody_and_a_still_firing_incident_is_told_at_its_end(tmp_path: Path) -> None:
    with told(tmp_path) as (service, desk):
        now = service.snapshot().at
        desk.change(lambda orders: orders.muted("low-accept", now, now + 3600.0))
        service.work(5.0, lambda: service.snapshot().mutes, "the mute")
        service.work(1.15, lambda: service.state() == "muted", "the incident")
        assert service.held("low-accept")
        assert service.told() == []

        desk.change(lambda orders: orders.unmuted("low-accept"))
        service.work(1.15, service.told, "what is told at its end")
        assert [(one["state"], one["alert"], one["again"]) for one in service.told()[:1]] == [
            ("fired", "low-accept", False)
        ]

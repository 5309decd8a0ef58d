"""An incident begins once and is resolved once, whatever its verdict does in between."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.alerts import Incident, Incidents
from ddwatch.core.monitor import Monitor
from ddwatch.core.snapshot import Severity, Verdict, VerdictName
from tests.core.lines import decode

SEVERITIES: dict[VerdictName, Severity] = {"slow-step": "page", "low-accept": "notice", "as-expected": "ok"}


def verdict(name: VerdictName, since: float = 0.0) -> Verdict:
    return Verdict(name=name, severity=SEVERITIES.get(name, "page"), since=since, sentence="a sentence")


def told(incidents: Incidents, now: float, *names: VerdictName) -> list[tuple[str, float | None]]:
    held = [verdict(name, now) for name in names]
    changes = incidents.see(now, held, loud=held[0].severity in ("page", "notice"))
    return [(one.verdict.name, one.resolved_at) for one in changes]


def test_it_begins_once_and_is_resolved_once() -> None:
    incidents = Incidents()

    assert told(incidents, 0.0, "as-expected") == []
    assert told(incidents, 10.0, "slow-step") == [("slow-step", None)]
    assert told(incidents, 20.0, "slow-step") == []
    assert told(incidents, 79.0, "as-expected") == []
    assert told(incidents, 80.0, "as-expected") == [("slow-step", 20.0)]
    assert told(incidents, 500.0, "as-expected") == []


def test_one_that_flickers_is_one() -> None:
    incidents = Incidents()
    changes = [told(incidents, 10.0 * n, "slow-step" if n % 4 else "as-expected") for n in range(1, 100)]

    assert [one for some in changes for one in some] == [("slow-step", None)]


def test_a_note_keeps_an_incident_alive_and_begins_none() -> None:
    incidents = Incidents()
    told(incidents, 0.0, "slow-step", "low-accept")

    assert told(incidents, 100.0, "stalled", "slow-step") == [("stalled", None)]
    assert told(incidents, 200.0, "as-expected", "slow-step") == [("stalled", 100.0)]
    assert told(incidents, 300.0, "as-expected") == [("slow-step", 200.0)]


@given(
    st.lists(st.tuples(st.floats(0.1, 90.0), st.sampled_from(["slow-step", "low-accept", "as-expected"])), max_size=60)
)
def test_every_end_has_its_begin(steps: Sequence[tuple[float, VerdictName]]) -> None:
    incidents, now = Incidents(), 0.0
    open_now: set[str] = set()
    for seconds, name in steps:
        now += seconds
        held = [verdict(name, now)]
        for one in incidents.see(now, held, loud=held[0].severity != "ok"):
            assert isinstance(one, Incident)
            if one.resolved_at is None:
                assert one.verdict.name not in open_now
                open_now.add(one.verdict.name)
            else:
                assert one.resolved_at <= now
                open_now.remove(one.verdict.name)


def test_the_watch_counts_incidents_not_asking() -> None:
    monitor = Monitor(started_at=0.0)
    for begin in (0, 1000):
        for second in range(begin, begin + 10):
            monitor.accept(decode(float(second), tokens=1000 + second))
        monitor.at(begin + 10.0)
        assert monitor.tallies().alerts.get("blind", 0) == (0 if begin == 0 else 1)
        for second in range(begin + 100, begin + 130):
            assert monitor.at(float(second)).verdict.name == "blind"

    assert monitor.tallies().alerts == {"blind": 2}

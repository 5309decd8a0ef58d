"""An incident begins once and is resolved once, whatever its verdict does in between."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.alert_orders import Orders
from ddwatch.core.alert_view import AlertView, KeepingView
from ddwatch.core.alerts import CALM_SECONDS, KEPT, RESUMED_SECONDS, Incident, Incidents, noted
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import OrdersSeen
from ddwatch.core.snapshot import History, Note, Severity, Verdict, VerdictName
from tests.core.lines import decode

SEVERITIES: dict[VerdictName, Severity] = {
    "slow-step": "page",
    "low-accept": "notice",
    "as-expected": "ok",
    "learning": "unknown",
}


def verdict(name: VerdictName, since: float = 0.0) -> Verdict:
    return Verdict(name=name, severity=SEVERITIES.get(name, "page"), since=since, sentence="a sentence")


def loud(one: Note) -> bool:
    return one.severity in ("page", "notice")


def told(incidents: Incidents, now: float, *names: VerdictName) -> list[tuple[str, float | None]]:
    held = [verdict(name, now) for name in names]
    changes = incidents.see(now, held, loud)
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


def test_beside_learning_a_notice_begins_one_because_it_needs_no_model_of_the_step() -> None:
    incidents = Incidents()

    assert told(incidents, 0.0, "as-expected", "low-accept") == []
    assert told(incidents, 1.0, "learning", "slow-step") == []
    assert told(incidents, 2.0, "learning", "low-accept") == [("low-accept", None)]
    assert told(incidents, 80.0, "learning") == [("low-accept", 2.0)]


def test_what_is_no_verdict_begins_one_whatever_the_verdict_is() -> None:
    storm = Note(name="retractions", severity="notice", since=0.0, sentence="the KV pool keeps filling up")
    held = (verdict("slow-step"), noted(verdict("low-accept")), storm)

    began = Incidents().see(0.0, held, loud)

    assert [one.verdict.name for one in began] == ["slow-step", "retractions"]
    assert isinstance(noted(verdict("low-accept")), Note)


@given(
    st.lists(st.tuples(st.floats(0.1, 90.0), st.sampled_from(["slow-step", "low-accept", "as-expected"])), max_size=60)
)
def test_every_end_has_its_begin(steps: Sequence[tuple[float, VerdictName]]) -> None:
    incidents, now = Incidents(), 0.0
    open_now: set[str] = set()
    for seconds, name in steps:
        now += seconds
        held = [verdict(name, now)]
        for one in incidents.see(now, held, loud):
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


def shown(alerts: Sequence[AlertView]) -> list[tuple[str, str]]:
    return [(alert.name, alert.state) for alert in alerts]


NOBODY = Orders(channel="a-mark")


class TestTheLog:
    def test_what_is_open_stands_before_what_is_over_each_the_newest_first(self) -> None:
        incidents = Incidents()
        told(incidents, 0.0, "low-accept")
        told(incidents, 100.0, "blind")
        told(incidents, 200.0, "stalled", "blind")
        told(incidents, 210.0, "slow-step", "blind", "stalled")

        assert shown(incidents.views(210.0)) == [
            ("slow-step", "firing"), ("stalled", "firing"), ("blind", "firing"), ("low-accept", "resolved"),
        ]  # fmt: skip
        over = incidents.views(210.0)[-1]
        assert (over.since, over.began_at, over.resolved_at) == (0.0, 0.0, 0.0)

    def test_it_says_what_was_last_seen_and_since_when(self) -> None:
        incidents = Incidents()
        for now, sentence in ((10.0, "+31 ms"), (20.0, "+60 ms")):
            held = Verdict(name="slow-step", severity="page", since=5.0 + now, sentence=sentence, cause=sentence)
            incidents.see(now, [held], loud)

        (alert,) = incidents.views(30.0)
        assert (alert.sentence, alert.cause, alert.since, alert.began_at) == ("+60 ms", "+60 ms", 15.0, 10.0)
        assert alert.incident == "slow-step-15"

    def test_a_suspicion_is_shown_until_it_is_an_incident(self) -> None:
        incidents = Incidents()
        suspected = [verdict("slow-step", 3.0)]

        assert shown(incidents.views(5.0, suspected)) == [("slow-step", "pending")]
        told(incidents, 6.0, "slow-step")
        assert shown(incidents.views(6.0, suspected)) == [("slow-step", "firing")]

    def test_it_is_bounded(self) -> None:
        incidents = Incidents()
        for number in range(3 * KEPT):
            told(incidents, 200.0 * number, "slow-step")
            told(incidents, 200.0 * number + 100.0, "as-expected")
        told(incidents, 1e6, "blind")
        alerts = incidents.views(1e6, [verdict("low-accept")])

        assert len(alerts) == KEPT
        assert shown(alerts[:3]) == [("blind", "firing"), ("low-accept", "pending"), ("slow-step", "resolved")]
        assert alerts[2].began_at == 200.0 * (3 * KEPT - 1)

    def test_the_second_incident_of_one_onset_has_a_name_of_its_own(self) -> None:
        incidents = Incidents()
        onset = [verdict("slow-step", 7.0)]
        for now in (10.0, 200.0, 400.0):
            incidents.see(now, onset, loud)
            incidents.see(now + 100.0, [verdict("as-expected")], loud)

        names = [alert.incident for alert in incidents.views(600.0)]
        assert names == ["slow-step-7-3", "slow-step-7-2", "slow-step-7"]


class TestOrders:
    def test_an_acknowledgement_is_of_one_incident_and_ends(self) -> None:
        incidents = Incidents()
        told(incidents, 10.0, "slow-step")
        asked = NOBODY.acknowledged([("slow-step", "slow-step-10")], 11.0, 100.0, "on it")
        assert incidents.obey(asked.orders, 11.0) == ["slow-step: acknowledged for 1 min 29 s: on it"]

        (alert,) = incidents.views(99.0)
        assert (alert.state, alert.until, alert.note) == ("acknowledged", 100.0, "on it")
        assert shown(incidents.views(100.0)) == [("slow-step", "firing")]
        told(incidents, 200.0, "as-expected")
        told(incidents, 300.0, "slow-step")
        assert shown(incidents.views(300.0)) == [("slow-step", "firing"), ("slow-step", "resolved")]

    def test_one_without_an_end_holds_until_the_incident_is_over(self) -> None:
        incidents = Incidents()
        told(incidents, 10.0, "slow-step")
        asked = NOBODY.acknowledged([("slow-step", "slow-step-10")], 11.0)
        assert incidents.obey(asked.orders, 11.0) == ["slow-step: acknowledged until it is over"]

        assert shown(incidents.views(86_400.0)) == [("slow-step", "acknowledged")]
        told(incidents, 86_500.0, "as-expected")
        assert shown(incidents.views(86_500.0)) == [("slow-step", "resolved")]

    def test_a_mute_is_of_a_name_whether_it_holds_or_not(self) -> None:
        incidents = Incidents()
        incidents.obey(NOBODY.muted("slow-step", 0.0, 100.0, "maintenance").orders, 0.0)
        (mute,) = incidents.mutes(10.0)
        assert (mute.name, mute.until, mute.note) == ("slow-step", 100.0, "maintenance")

        told(incidents, 20.0, "slow-step", "blind")
        assert shown(incidents.views(20.0)) == [("slow-step", "muted")]
        assert shown(incidents.views(100.0)) == [("slow-step", "firing")]
        assert incidents.mutes(100.0) == ()

    def test_a_mute_is_shown_before_an_acknowledgement_and_both_can_be_undone(self) -> None:
        incidents = Incidents()
        told(incidents, 10.0, "slow-step")
        both = NOBODY.acknowledged([("slow-step", "slow-step-10")], 11.0).muted("slow-step", 11.0, 100.0)
        incidents.obey(both.orders, 11.0)

        assert shown(incidents.views(12.0)) == [("slow-step", "muted")]
        assert incidents.obey(both.unmuted("slow-step").orders, 12.0) == ["slow-step: no longer muted"]
        assert shown(incidents.views(12.0)) == [("slow-step", "acknowledged")]
        assert incidents.obey((), 12.0) == ["slow-step: no longer acknowledged"]
        assert shown(incidents.views(12.0)) == [("slow-step", "firing")]

    def test_what_has_ended_is_no_news_and_neither_is_what_was_asked_before(self) -> None:
        incidents = Incidents()
        asked = NOBODY.muted("blind", 0.0, 10.0).orders
        assert incidents.obey(asked, 0.0) == ["blind: muted for 10 s"]
        assert incidents.obey(asked, 1.0) == []
        assert incidents.obey((), 10.0) == []

    def test_what_is_replaced_is_told_once(self) -> None:
        incidents = Incidents()
        first = NOBODY.muted("blind", 0.0, 100.0)
        incidents.obey(first.orders, 0.0)
        assert incidents.obey(first.muted("blind", 1.0, 3601.0).orders, 1.0) == ["blind: muted for 1 h 00 min"]


class TestAfterARestart:
    def before(self) -> tuple[AlertView, ...]:
        incidents = Incidents()
        told(incidents, 0.0, "low-accept")
        told(incidents, 100.0, "slow-step")
        return incidents.views(100.0, [verdict("starved", 90.0)])

    def test_the_log_is_back_and_what_was_open_goes_on(self) -> None:
        alerts = self.before()
        incidents = Incidents()
        incidents.restore(alerts, 1000.0, 110.0)

        assert incidents.views(1000.0) == (alerts[0], alerts[2])
        assert told(incidents, 1000.0 + RESUMED_SECONDS - 1.0, "slow-step") == []
        assert incidents.views(1300.0)[0].began_at == 100.0
        assert told(incidents, 2000.0, "as-expected") == [("slow-step", 1000.0 + RESUMED_SECONDS - 1.0)]

    def test_what_does_not_come_back_ended_when_the_earlier_watch_did(self) -> None:
        incidents = Incidents()
        incidents.restore(self.before(), 1000.0, 110.0)

        assert told(incidents, 1000.0 + RESUMED_SECONDS - 1.0, "as-expected") == []
        assert told(incidents, 1000.0 + RESUMED_SECONDS, "as-expected") == [("slow-step", 110.0)]

    def test_an_acknowledgement_still_holds(self) -> None:
        incidents = Incidents()
        incidents.restore(self.before(), 1000.0)
        incidents.obey(NOBODY.acknowledged([("slow-step", "slow-step-100")], 101.0).orders, 1000.0)

        assert shown(incidents.views(1000.0)) == [("slow-step", "acknowledged"), ("low-accept", "resolved")]


@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 2.0 * CALM_SECONDS),
            st.sampled_from(["slow-step", "low-accept", "as-expected"]),
            st.sampled_from(["none", "acknowledge", "mute", "undo", "restart"]),
        ),
        max_size=60,
    )
)
def test_the_log_tells_each_incident_once_whatever_is_asked(steps: Sequence[tuple[float, VerdictName, str]]) -> None:
    incidents, orders, now = Incidents(), NOBODY, 0.0
    begun: list[str] = []
    for seconds, name, asked in steps:
        now += seconds
        if asked == "restart":
            before = incidents.views(now)
            incidents = Incidents()
            incidents.restore(before, now, now)
        elif asked == "mute":
            orders = orders.muted("slow-step", now, now + 100.0)
        elif asked == "acknowledge":
            opened = [(alert.name, alert.incident) for alert in incidents.views(now) if alert.open]
            orders = orders.acknowledged(opened, now, now + 50.0)
        elif asked == "undo":
            orders = NOBODY
        incidents.obey(orders.orders, now)
        changes = incidents.see(now, [verdict(name, now)], loud)
        begun += [one.id for one in changes if one.resolved_at is None]
        alerts = incidents.views(now)
        open_names = [alert.name for alert in alerts if alert.open]
        assert len(set(open_names)) == len(open_names)
        assert sorted(alert.incident for alert in alerts) == sorted(set(begun))[-KEPT:] or len(begun) > KEPT
        for alert in alerts:
            assert (alert.resolved_at is None) == alert.open
            assert alert.resolved_at is None or alert.began_at <= alert.resolved_at <= now
            assert alert.state not in ("acknowledged", "muted") or alert.until is None or now < alert.until
            if alert.state == "muted":
                assert alert.name in [mute.name for mute in incidents.mutes(now)]


def test_the_watch_shows_the_log_and_never_lets_a_mute_change_the_verdict() -> None:
    monitor = Monitor(started_at=0.0)
    for second in range(10):
        monitor.accept(decode(float(second), tokens=1000 + second))
    monitor.at(10.0)
    blind = monitor.at(200.0)
    assert shown(blind.alerts) == [("blind", "firing")]

    asked = NOBODY.muted("blind", 200.0, 300.0).orders
    monitor.accept(OrdersSeen(at=199.0, keeping=KeepingView(channel="a-mark"), orders=asked[:0]))
    monitor.accept(OrdersSeen(at=200.0, keeping=KeepingView(channel="a-mark"), orders=asked))
    assert monitor.history().events[-1].text == "blind: muted for 1 min 40 s"
    muted = monitor.at(201.0)
    assert shown(muted.alerts) == [("blind", "muted")]
    assert (muted.verdict.name, muted.verdict.severity) == (blind.verdict.name, blind.verdict.severity)
    assert muted.mutes[0].until == 300.0
    assert muted.keeping == KeepingView(channel="a-mark")
    assert monitor.tallies().alerts == {"blind": 1}
    assert shown(monitor.at(300.0).alerts) == [("blind", "firing")]

    again = Monitor(started_at=400.0)
    again.restore(History(), muted.alerts, 201.0)
    assert shown(again.at(400.0).alerts) == [("blind", "firing")]
    assert again.tallies().alerts == {}

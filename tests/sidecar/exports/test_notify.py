"""Incidents reach their channels in order, through bounded queues; quiet hours, mutes and severities are kept."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timezone
from pathlib import Path
from typing import Any

import pytest
from ddwatch_sidecar.exports.notify import Failed, Notifier, Outbox, record_of
from ddwatch_sidecar.exports.quiet import quiet_hours
from msgspec.structs import replace

from ddwatch.core.alert_orders import Orders
from ddwatch.core.alert_view import AlertView
from ddwatch.core.alerts import Incidents
from ddwatch.core.records import SourceFault, SourceUp
from ddwatch.core.snapshot import ServerView, Severity, Snapshot, Verdict, VerdictName
from tests.commands.documents import held_against

NOON = 1_777_636_800.0
HOUR = 3600.0
SEVERITIES: dict[VerdictName, Severity] = {"as-expected": "ok", "low-accept": "notice", "high-accept": "notice"}
PATIENCE = 20.0
NOBODY = Orders(channel="a-mark")


def snapshot(at: float, name: VerdictName = "as-expected") -> Snapshot:
    verdict = Verdict(
        name=name,
        severity=SEVERITIES.get(name, "page"),
        since=at,
        sentence="+31 ms on every step <& so on>\x1b[31m",
        evidence={"offset_seconds": 0.031, "where": None},
        cause="GPU 3 is throttled",
        next_steps=("look at GPU 3",),
    )
    return Snapshot(seq=1, at=at, verdict=verdict, server=ServerView(model="a/model"), ddwatch_version="1.2.3")


class Kept:
    """A channel that keeps what it gets; it fails as often as it is told to."""

    name = "kept"

    def __init__(self, *failures: Failed) -> None:
        self.failures = list(failures)
        self.got: list[bytes] = []
        self.attempts = 0

    async def deliver(self, message: bytes) -> Failed | None:
        self.attempts += 1
        if self.failures:
            return self.failures.pop(0)
        self.got.append(message)
        return None

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(document["state"], document["alert"]) for document in map(json.loads, self.got)]


class Hanging:
    """A channel that never comes back."""

    name = "hanging"

    async def deliver(self, message: bytes) -> Failed | None:
        await asyncio.Event().wait()
        return None


Said = list[tuple[str, str | None]]


def delivering(use: Callable[[Outbox], Awaitable[None]], channel: Any, said: Said, **more: Any) -> Outbox:
    """Runs an outbox while `use` does its work."""

    async def run() -> Outbox:
        outbox = Outbox(channel, lambda name, reason: said.append((name, reason)), first_pause_seconds=0.01, **more)
        task = asyncio.create_task(outbox.run())
        await use(outbox)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return outbox

    return asyncio.run(run())


def watched(snapshots: list[Snapshot], orders: Orders = NOBODY, restored: tuple[AlertView, ...] = ()) -> list[Snapshot]:
    """The same with the alerts of one watch over them, while these orders hold from the second one on."""
    incidents, found = Incidents(), []
    incidents.restore(restored, snapshots[0].at)
    for one in snapshots:
        incidents.see(one.at, [one.verdict], lambda note: note.severity in ("page", "notice"))
        found.append(replace(one, alerts=incidents.views(one.at), mutes=incidents.mutes(one.at)))
        incidents.obey(orders.orders, one.at)
    return found


def seen(snapshots: list[Snapshot], orders: Orders = NOBODY, **more: Any) -> Kept:
    """What a channel gets of these snapshots."""
    channel = Kept()

    async def use(outbox: Outbox) -> None:
        notifier = Notifier([outbox], host="gpu01", zone=timezone.utc, **more)
        for one in snapshots if snapshots[0].alerts else watched(snapshots, orders):
            notifier.see(one)
        assert await notifier.close(PATIENCE)

    delivering(use, channel, [])
    return channel


class TestWhatIsTold:
    def test_an_incident_fires_once_and_is_resolved_once(self) -> None:
        slow = [snapshot(NOON + n, "slow-step") for n in range(100)]
        over = [snapshot(NOON + 100 + n) for n in range(100)]
        found = seen([snapshot(NOON - 1), *slow, *over])

        assert found.told == [("fired", "slow-step"), ("resolved", "slow-step")]

    def test_the_document_obeys_its_schema_and_its_text_is_what_slack_shows(self) -> None:
        found = seen([snapshot(NOON, "slow-step"), snapshot(NOON + 30, "slow-step"), snapshot(NOON + 100)])
        fired, resolved = (held_against("alert.json", document.decode()) for document in found.got)

        assert fired["text"] == (
            "[page] slow-step on gpu01 (a/model): +31 ms on every step &lt;&amp; so on&gt;[31m. "
            "Cause: GPU 3 is throttled. Next: look at GPU 3"
        )
        assert (fired["at"], resolved["at"]) == ("2026-05-01T12:00:00.000+00:00", "2026-05-01T12:01:40.000+00:00")
        assert (fired["again"], resolved["again"]) == (False, False)
        assert fired["evidence"] == {"offset_seconds": 0.031, "where": None}
        assert "over after 30 s" in resolved["text"]
        assert fired["incident"] == resolved["incident"] and resolved["resolved_at"] == "2026-05-01T12:00:30.000+00:00"

    def test_a_simulation_says_so(self) -> None:
        found = seen([replace(snapshot(NOON, "slow-step"), simulated=True)])

        assert json.loads(found.got[0])["text"].startswith("SIMULATED [page]")

    def test_the_least_severity_holds(self) -> None:
        both = [snapshot(NOON, "low-accept"), snapshot(NOON + 1, "slow-step")]

        assert seen(both, least="page").told == [("fired", "slow-step")]
        assert seen(both).told == [("fired", "low-accept"), ("fired", "slow-step")]


class TestQuietHours:
    QUIET = quiet_hours("22:00-07:00")

    def test_a_page_is_told_at_any_hour(self) -> None:
        assert seen([snapshot(NOON + 11 * HOUR, "slow-step")], quiet=self.QUIET).told == [("fired", "slow-step")]

    def test_a_notice_waits_until_they_are_over(self) -> None:
        night = [snapshot(NOON + 11 * HOUR + n, "low-accept") for n in range(10)]
        assert seen(night, quiet=self.QUIET).told == []

        morning = snapshot(NOON + 19 * HOUR, "low-accept")
        assert seen([*night, morning], quiet=self.QUIET).told == [("fired", "low-accept")]

    def test_a_notice_that_came_and_went_is_never_told(self) -> None:
        night = NOON + 11 * HOUR
        story = [snapshot(night, "low-accept"), snapshot(night + 100), snapshot(NOON + 19 * HOUR)]

        assert seen(story, quiet=self.QUIET).told == []

    def test_the_end_of_one_that_was_told_waits_too(self) -> None:
        night = NOON + 11 * HOUR
        story = [snapshot(NOON, "low-accept"), snapshot(night), snapshot(night + 100, "low-accept")]
        told = [("fired", "low-accept"), ("resolved", "low-accept"), ("fired", "low-accept")]

        assert seen(story, quiet=self.QUIET).told == told[:1]
        assert seen([*story, snapshot(NOON + 19 * HOUR, "low-accept")], quiet=self.QUIET).told == told

    @pytest.mark.parametrize("words", ["", "22-7", "22:00", "25:00-07:00", "22:00-22:00", "22:00-07:60"])
    def test_other_words_are_refused_with_a_phrase(self, words: str) -> None:
        with pytest.raises(ValueError, match="must b"):
            quiet_hours(words)

    def test_hours_within_a_day(self) -> None:
        quiet = quiet_hours("12:00-13:00")

        assert quiet.holds(NOON, timezone.utc) and not quiet.holds(NOON + HOUR, timezone.utc)


class TestOrders:
    SLOW = f"slow-step-{int(NOON)}"

    def lasting(self, hours: int) -> list[Snapshot]:
        """One incident, looked at every six minutes for so many hours."""
        return [replace(snapshot(NOON + 360.0 * n, "slow-step")) for n in range(10 * hours + 1)]

    def test_what_nobody_acknowledges_is_told_again_and_again(self) -> None:
        found = seen([*self.lasting(9), snapshot(NOON + 10 * HOUR)], repeat_seconds=4 * HOUR)

        assert [(json.loads(one)["state"], json.loads(one)["again"]) for one in found.got] == [
            ("fired", False), ("fired", True), ("fired", True), ("resolved", False),
        ]  # fmt: skip
        assert "slow-step on gpu01 (a/model) still holds after 4 h 00 min: +31 ms" in json.loads(found.got[1])["text"]

    def test_an_acknowledgement_stops_that_and_lets_the_end_through(self) -> None:
        asked = NOBODY.acknowledged([("slow-step", self.SLOW)], NOON)
        found = seen([*self.lasting(9), snapshot(NOON + 10 * HOUR)], asked, repeat_seconds=4 * HOUR)

        assert found.told == [("fired", "slow-step"), ("resolved", "slow-step")]

    def test_one_that_expires_is_told_again_even_where_nothing_repeats(self) -> None:
        asked = NOBODY.acknowledged([("slow-step", self.SLOW)], NOON, NOON + 2 * HOUR)
        found = seen(self.lasting(9), asked)

        assert [json.loads(one)["again"] for one in found.got] == [False, True]
        assert "still holds after 2 h" in json.loads(found.got[1])["text"]

    def test_a_mute_tells_nobody_until_it_ends(self) -> None:
        asked = NOBODY.muted("slow-step", NOON, NOON + 2 * HOUR)
        before = snapshot(NOON - 360.0)

        assert seen([before, *self.lasting(1)], asked).told == []
        found = seen([before, *self.lasting(3)], asked)
        assert [(one["state"], one["again"]) for one in map(json.loads, found.got)] == [("fired", False)]

    def test_what_comes_and_goes_under_a_mute_is_never_told(self) -> None:
        asked = NOBODY.muted("slow-step", NOON, NOON + 2 * HOUR)
        story = [snapshot(NOON - 360.0), *self.lasting(1), snapshot(NOON + 1.5 * HOUR), snapshot(NOON + 3 * HOUR)]

        assert seen(story, asked).told == []

    def test_the_end_of_one_that_was_told_waits_for_the_end_of_the_mute(self) -> None:
        asked = NOBODY.muted("slow-step", NOON, NOON + 2 * HOUR)
        story = [*self.lasting(1), snapshot(NOON + 1.5 * HOUR)]

        assert seen(story, asked).told == [("fired", "slow-step")]
        assert seen([*story, snapshot(NOON + 2 * HOUR)], asked).told == [
            ("fired", "slow-step"), ("resolved", "slow-step"),
        ]  # fmt: skip

    def test_after_a_restart_what_was_told_is_not_told_anew_and_its_end_is(self) -> None:
        before = watched(self.lasting(1))[-1].alerts
        later = [replace(snapshot(NOON + 2 * HOUR + n, "slow-step"), started_at=NOON + 2 * HOUR) for n in range(3)]
        over = replace(snapshot(NOON + 3 * HOUR), started_at=NOON + 2 * HOUR)

        assert seen(watched(later, restored=before)).told == []
        assert seen(watched([*later, over], restored=before)).told == [("resolved", "slow-step")]

    def test_it_forgets_what_the_log_forgets(self) -> None:
        async def use(outbox: Outbox) -> None:
            notifier = Notifier([outbox], host="gpu01", repeat_seconds=None)
            for one in watched(self.lasting(1)):
                notifier.see(one)
            notifier.see(snapshot(NOON + HOUR))
            notifier.see(watched([snapshot(NOON, "slow-step")])[0])
            assert await notifier.close(PATIENCE)

        channel = Kept()
        delivering(use, channel, [])
        assert [json.loads(one)["again"] for one in channel.got] == [False, False]


class TestOutbox:
    def test_it_tries_again_and_says_when_it_works(self) -> None:
        channel, said = Kept(Failed("answers 503", True), Failed("answers 503", True)), list[tuple[str, str | None]]()

        async def use(outbox: Outbox) -> None:
            outbox.put(b"{}")
            assert await outbox.drained(PATIENCE)

        delivering(use, channel, said)
        assert (channel.attempts, channel.got) == (3, [b"{}"])
        assert said == [("kept", "answers 503; trying again"), ("kept", None)]

    def test_what_cannot_help_is_not_tried_again(self) -> None:
        channel, said = Kept(Failed("answers 404", False)), list[tuple[str, str | None]]()

        async def use(outbox: Outbox) -> None:
            outbox.put(b"1")
            outbox.put(b"2")
            assert await outbox.drained(PATIENCE)

        outbox = delivering(use, channel, said)
        assert (channel.got, outbox.dropped) == ([b"2"], 1)
        assert said == [("kept", "answers 404; a message is lost"), ("kept", None)]

    def test_it_gives_up_in_the_end(self) -> None:
        channel, said = Kept(*[Failed("answers 503", True)] * 1000), list[tuple[str, str | None]]()

        async def use(outbox: Outbox) -> None:
            outbox.put(b"{}")
            assert await outbox.drained(PATIENCE)

        outbox = delivering(use, channel, said, retry_seconds=0.1)
        assert outbox.dropped == 1 and said[-1] == ("kept", "answers 503; a message is lost")

    def test_a_channel_that_hangs_holds_nobody_up_and_its_queue_is_bounded(self) -> None:
        said: Said = []

        async def use(outbox: Outbox) -> None:
            for number in range(100):
                outbox.put(str(number).encode())
            assert not await outbox.drained(0.01)

        outbox = delivering(use, Hanging(), said, room=8)
        assert outbox.dropped in (91, 92)
        assert said == [("hanging", "too many messages wait; the oldest is dropped")]


def test_trouble_is_a_value_for_the_monitor() -> None:
    assert record_of("webhook", "answers 503", NOON) == SourceFault(at=NOON, source="webhook", reason="answers 503")
    assert record_of("webhook", None, NOON) == SourceUp(at=NOON, source="webhook", detail="delivers")


def test_the_schema_is_published() -> None:
    assert (Path(__file__).parent.parent.parent.parent / "docs" / "schemas" / "alert.json").exists()

"""Incidents reach their channels once, in order, through bounded queues; quiet hours and severities are kept."""

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

from ddwatch.core.records import SourceFault, SourceUp
from ddwatch.core.snapshot import ServerView, Severity, Snapshot, Verdict, VerdictName
from tests.commands.documents import held_against

NOON = 1_777_636_800.0
HOUR = 3600.0
SEVERITIES: dict[VerdictName, Severity] = {"as-expected": "ok", "low-accept": "notice", "high-accept": "notice"}
PATIENCE = 20.0


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


def seen(snapshots: list[Snapshot], **more: Any) -> Kept:
    """What a channel gets of these snapshots."""
    channel = Kept()

    async def use(outbox: Outbox) -> None:
        notifier = Notifier([outbox], host="gpu01", zone=timezone.utc, **more)
        for one in snapshots:
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

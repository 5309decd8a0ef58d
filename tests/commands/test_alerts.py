"""`ddwatch alerts`: the log as text and as a document, and what is asked of it reaches the sidecar's file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from ddwatch.alert_desk import Desk, desk_folder
from ddwatch.core.alert_view import AlertView, KeepingView, MuteView
from ddwatch.core.exits import Exit
from ddwatch.core.snapshot import Snapshot, SourceView
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.fakes.sidecar_http import FakeSidecar, small_frame, snapshot

NOON = 1_777_636_800.0
SLOW = AlertView(
    incident="slow-step-1777636080",
    name="slow-step",
    severity="page",
    state="firing",
    since=NOON - 720,
    began_at=NOON - 700,
    sentence="+31 ms on every step\x1b[31m, at all contexts",
    cause="GPU 5 is throttled",
    next_steps=("nvidia-smi -q -d PERFORMANCE -i 5", "check airflow"),
    evidence={"offset_seconds": 0.031},
)
LONG = "no batch line for 6 min 20 s with 1 running: idle or stuck cannot be told from the log alone"
BLIND = replace(SLOW, name="blind", incident="blind-1", severity="unknown", sentence=LONG, cause=None, note="seen")
OVER = replace(SLOW, incident="slow-step-1", state="resolved", since=NOON - 5000, resolved_at=NOON - 4400)
SUSPECTED = replace(SLOW, name="low-accept", state="pending", severity="notice", cause=None)
LOG = (SUSPECTED, SLOW, replace(BLIND, state="acknowledged", until=NOON + 3600), OVER)


@pytest.fixture
def desk(home: Path) -> Desk:
    """The file of this host's sidecar."""
    made = Desk(desk_folder() / "service.json")
    made.prepare()
    return made


@contextmanager
def sidecar(alerts: tuple[AlertView, ...], channel: str | None, **more: object) -> Iterator[list[str]]:
    """Words that name a sidecar with this log."""
    base: Snapshot = small_frame(1).snapshot
    told = replace(base, at=NOON, alerts=alerts, keeping=KeepingView(channel=channel), **more)
    frame = replace(small_frame(1), snapshot=told)
    with FakeSidecar(others={"/v1/snapshot": snapshot(frame)}) as server:
        yield ["--url", server.url]


def test_the_log_is_listed_with_everything_that_helps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    mutes = (MuteView(name="starved", until=NOON + 3600, note="maintenance"),)
    with sidecar(LOG, None, mutes=mutes) as where:
        code, out, err = said(["alerts", *where], capsys)

    lines = out.splitlines()
    assert (code, err) == (Exit.OK, "")
    assert [line.split(" until ")[0] for line in lines if line[4:5].strip()] == [
        "    … low-accept: pending",
        "  1 ✗ slow-step: firing",
        "  2 ○ blind: acknowledged",
        "  3 ✓ slow-step: resolved",
        "muted: starved",
    ]
    assert "      next: nvidia-smi -q -d PERFORMANCE -i 5" in lines and "      note: seen" in lines
    assert "      likely: GPU 5 is throttled" in lines
    assert any(line.endswith(", over after 10 min 00 s") for line in lines)
    assert lines[-1].endswith("(maintenance)")
    assert any(line.startswith("        ") and line.endswith("the log alone") for line in lines)
    assert "\x1b" not in out and max(map(len, lines)) <= 80


def test_an_empty_log_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with sidecar((), None) as where:
        assert said(["alerts", "list", *where], capsys).out.startswith("nothing is wrong, and nothing was")


def test_the_document_obeys_its_schema(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    with sidecar(LOG, desk.read().channel) as where:
        listed = held_against("alerts.json", said(["alerts", "--json", *where], capsys).out)
        words = ["alerts", "ack", "all", "--for", "2h", "--json"]
        given = held_against("alerts.json", said([*words, *where], capsys).out)

    assert [alert["state"] for alert in listed["alerts"]] == ["pending", "firing", "acknowledged", "resolved"]
    assert (listed["action"], listed["until"]) == ("list", None)
    assert [alert["name"] for alert in given["alerts"]] == ["slow-step", "blind"]
    assert (given["action"], given["until"]) == ("ack", "2026-05-01T14:00:00.000+00:00")


def test_an_acknowledgement_is_of_the_incident_that_fires(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    with sidecar(LOG, desk.read().channel) as where:
        code, out, _ = said(["alerts", "ack", "slow-step", "--note", "on it", *where], capsys)
        assert (code, out) == (Exit.OK, "slow-step is acknowledged until it is over\n")
        (order,) = desk.read().orders
        assert (order.kind, order.incident, order.given_at) == ("acknowledge", "slow-step-1777636080", NOON)
        assert (order.until, order.note) == (None, "on it")

        _, out, _ = said(["alerts", "ack", "all", "--for", "90m", *where], capsys)
        assert out.startswith("slow-step, blind are acknowledged until ")
        assert [order.until for order in desk.read().orders] == [NOON + 5400, NOON + 5400]

        said(["alerts", "unack", "slow-step", *where], capsys)
        assert [order.alert for order in desk.read().orders] == ["blind"]


def test_a_mute_is_of_a_name_and_ends(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    with sidecar((), desk.read().channel) as where:
        code, out, _ = said(["alerts", "mute", "slow-step", *where], capsys)
        assert code == Exit.OK and out.startswith("slow-step tells nobody until ")
        said(["alerts", "mute", "retractions", "--for", "1d", *where], capsys)
        assert [(order.alert, order.until) for order in desk.read().orders] == [
            ("slow-step", NOON + 3600), ("retractions", NOON + 86_400),
        ]  # fmt: skip
        assert said(["alerts", "unmute", "slow-step", *where], capsys).out == "slow-step is muted no longer\n"
        assert [order.alert for order in desk.read().orders] == ["retractions"]


def test_elsewhere_one_sentence_names_the_command(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    with sidecar(LOG, "the-mark-of-another-host") as where:
        code, out, err = said(["alerts", "mute", "slow-step", *where], capsys)
    assert (code, out) == (Exit.INPUT, "")
    assert err == (
        "ddwatch alerts: this must be asked on the sidecar's own host, as the user that it runs as: "
        "ddwatch alerts mute slow-step\n"
    )

    lost = SourceView(name="acknowledgements", state="lost", detail="service.json: permission denied", witness=False)
    with sidecar(LOG, None, sources=(lost,)) as where:
        _, _, err = said(["alerts", "ack", "slow-step", *where], capsys)
    assert err == "ddwatch alerts: this sidecar takes no acknowledgements: service.json: permission denied\n"
    assert desk.read().orders == ()


def test_where_nothing_fires_there_is_nothing_to_acknowledge(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    with sidecar((OVER, SUSPECTED), desk.read().channel) as where:
        code, _, err = said(["alerts", "ack", "slow-step", *where], capsys)
        assert code == Exit.INPUT and err.startswith("ddwatch alerts: nothing is wrong now")
    with sidecar(LOG, desk.read().channel) as where:
        _, _, err = said(["alerts", "ack", "down", *where], capsys)
        assert err == "ddwatch alerts: down does not fire now; there are slow-step, blind\n"


def test_a_broken_file_is_one_sentence(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    channel = desk.read().channel
    text = json.dumps({"schema": "ddwatch.alert-orders/1", "channel": channel, "orders": [{"kind": "mute"}]})
    desk.path.write_text(text, encoding="utf-8")
    with sidecar(LOG, channel) as where:
        code, _, err = said(["alerts", "ack", "slow-step", *where], capsys)

    assert code == Exit.INPUT and err.count("\n") == 1
    assert desk.path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ack"], "ack needs a name or all"),
        (["mute"], "mute needs a name"),
        (["mute", "all"], "no alert has the name 'all'"),
        (["ack", "as-expected"], "no alert has the name 'as-expected'; there are down, stalled"),
        (["list", "slow-step"], "list takes no name"),
        (["unmute", "slow-step", "--for", "1h"], "unmute takes no --for or --note"),
        (["mute", "slow-step", "--for", "soon"], "'soon' must be a time like 90s, 15m, 4h or 1d"),
        (["silence", "slow-step"], "invalid choice: 'silence'"),
    ],
)
def test_wrong_words_get_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(["alerts", *words], capsys)

    assert (code, out) == (Exit.USAGE, "")
    assert sentence in err and err.count("\n") == 1


def test_without_a_sidecar_it_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(["alerts", "--url", "http://127.0.0.1:1"], capsys)

    assert code == Exit.INPUT and "is not there (connection refused)" in err

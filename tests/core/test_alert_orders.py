"""What the operator asked of alerts: kept bounded, read back as it was written, and refused where it is foreign."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.alert_orders import ALARMS, KEPT, LONGEST_NOTE, Order, Orders, decoded, encoded

NOW = 1_777_636_800.0
NONE = Orders(channel="a-mark")
ENDLESS = Order(kind="mute", alert="blind", given_at=1.0)
MUTE = Order(kind="mute", alert="blind", given_at=1.0, until=2.0)
names = st.sampled_from(ALARMS)
times = st.floats(0.0, 4e9)
orders = st.builds(
    Order,
    kind=st.just("mute"),
    alert=names,
    given_at=times,
    until=times,
    note=st.text(st.characters(codec="utf-8", categories=["L", "N"]), max_size=LONGEST_NOTE),
) | st.builds(Order, kind=st.just("acknowledge"), alert=names, incident=st.text(max_size=30), given_at=times)


def test_an_alarm_is_what_needs_somebody() -> None:
    verdicts = ("down", "stalled", "starved", "blind", "slow-step", "low-accept", "high-accept")
    assert (*verdicts, "retractions", "restarts") == ALARMS


@given(st.lists(orders, max_size=KEPT))
def test_what_is_written_is_read_back(some: list[Order]) -> None:
    document = Orders(channel="a-mark", orders=tuple(some))

    assert decoded(encoded(document)) == document


def test_an_acknowledgement_replaces_the_earlier_one_of_its_incident() -> None:
    first = NONE.acknowledged([("slow-step", "slow-step-1"), ("blind", "blind-2")], NOW, NOW + 10, "seen")
    second = first.acknowledged([("slow-step", "slow-step-1")], NOW + 1)

    assert [(order.incident, order.until, order.note) for order in second.orders] == [
        ("blind-2", NOW + 10, "seen"),
        ("slow-step-1", None, ""),
    ]
    assert second.reopened(["slow-step-1"]).orders == second.orders[:1]


def test_a_mute_replaces_the_earlier_one_of_its_name_and_leaves_acknowledgements() -> None:
    both = NONE.acknowledged([("slow-step", "slow-step-1")], NOW).muted("slow-step", NOW, NOW + 10)
    again = both.muted("slow-step", NOW + 1, NOW + 99)

    assert [(order.kind, order.until) for order in again.orders] == [("acknowledge", None), ("mute", NOW + 99)]
    assert [order.kind for order in again.unmuted("slow-step").orders] == ["acknowledge"]


def test_what_has_ended_is_dropped_and_the_file_stays_small() -> None:
    ended = NONE.muted("blind", NOW, NOW + 10).acknowledged([("down", "down-1")], NOW)
    assert [order.alert for order in ended.muted("stalled", NOW + 10, NOW + 20).orders] == ["down", "stalled"]
    assert ended.muted("stalled", NOW + 100 * 86400.0, NOW + 101 * 86400.0).orders[0].alert == "stalled"

    many = NONE.acknowledged([("down", f"down-{number}") for number in range(3 * KEPT)], NOW)
    assert [order.incident for order in many.orders] == [f"down-{number}" for number in range(2 * KEPT, 3 * KEPT)]


def test_a_note_is_one_short_line_that_cannot_steer_a_terminal() -> None:
    note = NONE.muted("blind", NOW, NOW + 1, "maintenance\n\x1b[31m " + "x" * 500).orders[0].note

    assert note.startswith("maintenance [31m x") and note.isprintable() and len(note) == LONGEST_NOTE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b'{"schema": "ddwatch.alert-orders/2"}', "is of schema 'ddwatch.alert-orders/2'"),
        (b'{"schema": "ddwatch.alert-orders/1"}', "cannot be read"),
        (encoded(Orders(channel="a", orders=(ENDLESS,))), "holds more"),
        (encoded(Orders(channel="a", orders=(MUTE,) * (KEPT + 1))), "holds more"),
    ],
)  # fmt: skip
def test_another_file_is_refused_with_a_phrase(text: bytes, said: str) -> None:
    refusal = decoded(text)

    assert isinstance(refusal, str) and said in refusal and "\n" not in refusal


def test_a_note_that_was_written_by_hand_is_cleaned_too() -> None:
    dirty = Orders(channel="a", orders=(Order(kind="mute", alert="down", given_at=1.0, until=2.0, note="a\x1b]0;b"),))
    read = decoded(encoded(dirty))

    assert isinstance(read, Orders) and read.orders[0].note == "a]0;b"

"""Every bit of the mask has a meaning: what is normal on a healthy card accuses none."""

import pytest

from ddwatch.core.gpus.reasons import BAD, REASONS, names
from tests.core.gpus.machine import Machine, every, only

INNOCENT = [0x0, 0x1, 0x2, 0x4, 0x10, 0x100, 0x4 | 0x2 | 0x10, 0x200, 1 << 40]


@pytest.mark.parametrize("mask", INNOCENT, ids=hex)
def test_what_a_healthy_card_shows_accuses_nobody(mask: int) -> None:
    machine = Machine().run(60, every(reasons=mask))

    assert machine.findings() == ()
    assert machine.events() == []


@pytest.mark.parametrize(
    ("mask", "kind", "grade"),
    [
        (0x8, "hw-slowdown", "warning"),
        (0x20, "thermal", "warning"),
        (0x40, "thermal", "critical"),
        (0x48, "thermal", "critical"),
        (0x60, "thermal", "critical"),
        (0x80, "power-brake", "critical"),
        (0x88, "power-brake", "critical"),
        (0x4C, "thermal", "critical"),
    ],
)
def test_what_takes_speed_is_named_with_its_next_step(mask: int, kind: str, grade: str) -> None:
    (found,) = Machine().run(20, only(3, reasons=mask)).findings()

    assert (found.index, found.kind, found.grade, found.severity) == (3, kind, grade, "notice")
    assert found.slows and found.sentence.startswith("GPU 3 ") and found.next_step


def test_the_software_power_cap_is_information_that_names_the_limit() -> None:
    machine = Machine().run(60, every(reasons=0x4, power_limit_watts=315.0))
    known = [item for item in machine.book.findings(machine.now) if item.index == 3]

    assert [(item.kind, item.grade, item.severity, item.slows) for item in known] == [
        ("power-cap", "information", "ok", False)
    ]
    assert "limit 315 W" in known[0].sentence


def test_a_flicker_is_no_slowdown() -> None:
    machine = Machine().run(60, lambda index, second: {"reasons": 0x20 if second % 5 == 0 else 0})

    assert machine.findings() == ()


def test_a_card_at_rest_is_not_accused_of_a_slow_clock() -> None:
    machine = Machine().run(60, every(reasons=0x8, utilization_ratio=0.0))

    assert machine.findings() == ()


def test_names_are_unique_and_unknown_bits_keep_their_value() -> None:
    assert len({reason.name for reason in REASONS}) == len(REASONS)
    assert names(0x4 | 0x1 | 0x400) == ("gpu_idle", "sw_power_cap", "0x400")
    assert names(None) == () and names(0) == ()


def test_reasons_that_give_a_finding_say_what_to_do() -> None:
    for reason in REASONS:
        assert bool(reason.kind) == bool(reason.next_step), reason.name
        assert bool(reason.bit & BAD) == (reason.grade != "information"), reason.name

"""Stories of a machine: what is found, since when, on which card, and what the timeline says of it."""

from typing import Any

import pytest

from ddwatch.core.gpus.book import XID_SECONDS
from ddwatch.core.gpus.held import LASTING_SECONDS
from ddwatch.core.hardware import GpuProcess, GpuReading, HostProcess, HostReading
from ddwatch.core.records import Xid
from tests.core.gpus.machine import BEGIN, Machine, card, every, healthy, only

LEARN = 120
ROOM = 69
"""Columns that an 80-column screen has for the next command: what is to be typed stands within them."""


def test_a_healthy_machine_has_nothing_to_say() -> None:
    machine = Machine().run(LEARN)

    assert machine.book.findings(machine.now) == ()
    assert machine.events() == []
    view = machine.view(3)
    assert (view.state, view.loaded, view.outlier) == ("ok", True, False)
    assert (view.normal_sm_clock_hertz, view.normal_memory_clock_hertz) == (2.37e9, 12.481e9)


def test_one_straggler_of_eight_is_named_since_it_began() -> None:
    machine = Machine().run(LEARN)
    began = machine.now + 1
    machine.run(20, only(3, sm_clock_hertz=1.2e9))

    (found,) = machine.findings()
    assert (found.index, found.kind, found.since, found.slows) == (3, "straggler", began, True)
    assert found.sentence == "GPU 3 runs its SMs at 1200 MHz, the others at 2370 MHz"
    assert found.shows_in == "sm-clock"
    assert "-i 3 -d PERFORMANCE,CLOCK,POWER,TEMPERATURE" in found.next_step[:ROOM]
    assert [view.outlier for view in machine.book.views(machine.now)] == [i == 3 for i in range(8)]
    assert machine.view(3).outlier_sentence == found.sentence and machine.view(3).state == "notice"
    assert [(event.kind, event.severity, event.text) for event in machine.events()] == [
        ("gpu", "notice", found.sentence)
    ]


def test_a_straggler_from_the_very_first_reading_is_seen_without_any_normal() -> None:
    machine = Machine().run(20, only(5, memory_clock_hertz=5e9))

    assert machine.kinds() == [(5, "straggler")]


def test_a_lower_power_limit_of_a_straggler_is_part_of_its_sentence() -> None:
    machine = Machine().run(20, only(2, sm_clock_hertz=1.5e9, reasons=0x4, power_limit_watts=315.0))

    (found,) = machine.findings()
    assert found.sentence.endswith("its power limit is 315 W, theirs 600 W")


def test_when_all_cards_slow_down_their_own_normal_tells() -> None:
    machine = Machine().run(LEARN).run(20, every(sm_clock_hertz=1.2e9, reasons=0x4))

    assert machine.kinds() == [(index, "sm-clock") for index in range(8)]
    assert "normally 2370 MHz, held by its power limit of 600 W" in machine.findings()[0].sentence
    (event,) = machine.events()
    assert event.text.endswith("the same on GPU 1, 2, 3, 4, 5, 6, 7")


def test_a_memory_clock_below_its_normal_is_told() -> None:
    machine = Machine(1).run(LEARN).run(20, every(memory_clock_hertz=7e9))

    assert machine.kinds() == [(0, "memory-clock")]


def test_what_is_over_is_told_once_it_has_been_gone_for_a_while() -> None:
    machine = Machine().run(LEARN).run(20, only(3, reasons=0x20)).run(int(LASTING_SECONDS) + 15)

    assert machine.findings() == ()
    begun, over = machine.events()
    assert over.severity == "ok" and over.text.startswith("over after ") and begun.text in over.text


def test_what_comes_and_goes_is_one_line_with_a_count() -> None:
    machine = Machine().run(LEARN)
    for _ in range(3):
        machine.run(10, only(3, reasons=0x20)).run(40)

    assert sorted(event.count for event in machine.events()) == [3, 3]


def test_a_throttled_card_does_not_become_its_own_normal() -> None:
    machine = Machine(2).run(LEARN).run(1200, only(0, reasons=0x20, sm_clock_hertz=1.2e9)).run(5)

    assert machine.view(0).normal_sm_clock_hertz == 2.37e9


def test_another_power_limit_is_another_normal() -> None:
    machine = Machine(1).run(LEARN).run(LEARN, every(power_limit_watts=315.0, sm_clock_hertz=1.5e9, reasons=0x4))

    assert machine.findings() == ()
    assert machine.view(0).normal_sm_clock_hertz == 1.5e9


@pytest.mark.parametrize(
    "at_rest",
    [{"pcie_generation": 1}, {"sm_clock_hertz": 2.1e8, "performance_state": 8}, {"memory_clock_hertz": 4e8}],
    ids=["gen1", "low clock", "low memory clock"],
)
def test_idle_cards_may_rest(at_rest: dict[str, Any]) -> None:
    machine = Machine().run(LEARN).run(60, every(utilization_ratio=0.0, reasons=0x1, **at_rest))

    assert machine.findings() == ()
    assert {view.state for view in machine.book.views(machine.now)} == {"idle"}


def test_a_link_below_its_maximum_counts_under_load_only() -> None:
    machine = Machine().run(20, only(4, pcie_generation=2))

    (found,) = machine.findings()
    assert (found.index, found.kind, found.slows) == (4, "straggler", True)
    assert found.sentence == "GPU 4 has its PCIe link at Gen2 x16, the others at Gen5 x16"
    assert "riser" in found.next_step and "lspci -s 0000:15:00.0 -vv" in found.next_step[:ROOM]


def test_a_link_is_judged_by_its_own_maximum_where_there_are_no_peers() -> None:
    machine = Machine(1).run(20, every(pcie_generation=2))

    (found,) = machine.findings()
    assert (found.kind, found.grade) == ("pcie-link", "warning")
    assert found.sentence == "GPU 0 has its PCIe link at Gen2 x16 under load, its maximum is Gen5 x16"


def test_a_link_that_flaps_with_the_load_is_tolerated() -> None:
    machine = Machine(1).run(120, lambda index, second: {"pcie_generation": 1 if second % 3 else 5})

    assert machine.findings() == ()


def test_one_flapping_link_of_eight_is_tolerated_too() -> None:
    machine = Machine().run(120, lambda index, second: {"pcie_generation": 1 if index == 4 and second % 2 else 5})

    assert machine.findings() == ()


def test_a_link_of_unknown_maximum_is_not_judged() -> None:
    machine = Machine(1).run(60, every(pcie_generation=1, pcie_generation_max=None, pcie_width_max=None))

    assert machine.findings() == ()


def test_a_finding_stays_through_a_pause_of_the_traffic() -> None:
    machine = Machine(1).run(20, every(pcie_width=4)).run(120, every(utilization_ratio=0.0, pcie_generation=1))

    assert machine.kinds() == [(0, "pcie-link")]


def test_a_card_that_stays_in_a_slow_state_under_load_is_stuck() -> None:
    machine = Machine(1).run(20, every(performance_state=8))

    assert machine.kinds() == [(0, "sm-clock")]
    assert "P8" in machine.findings()[0].sentence


@pytest.mark.parametrize(
    ("changes", "kind", "grade"),
    [
        ({"ecc_errors": {"uncorrected": 2}}, "ecc", "critical"),
        ({"remap_pending": True}, "remap", "warning"),
        ({"remap_failed": True, "remap_pending": True}, "remap", "critical"),
        ({"recovery_action": "reset"}, "recovery", "critical"),
        ({"nvlinks_active": 17}, "nvlink", "critical"),
        ({"nvlink_errors": {"recovery": 4}}, "nvlink", "warning"),
        ({"pcie_replays": 500}, "pcie-link", "warning"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_failing_hardware_is_told_with_or_without_load(changes: dict[str, Any], kind: str, grade: str) -> None:
    for load in (0.0, 0.97):
        machine = Machine().run(5).run(20, only(6, utilization_ratio=load, **changes))
        (found,) = machine.findings()

        assert (found.index, found.kind, found.grade) == (6, kind, grade)
        assert found.next_step


def test_old_memory_errors_are_a_warning_and_new_ones_are_critical() -> None:
    machine = Machine().run(20, only(1, ecc_errors={"uncorrected": 2}))
    assert [item.grade for item in machine.findings()] == ["warning"]
    assert "none since the watch began" in machine.findings()[0].sentence

    machine.run(20, only(1, ecc_errors={"uncorrected": 3}))
    assert [item.grade for item in machine.findings()] == ["critical"]
    assert "1 more since the watch began" in machine.findings()[0].sentence


def test_a_lost_card_is_a_row_that_says_so_and_the_others_go_on() -> None:
    machine = Machine().run(LEARN)
    machine.now += 1
    lost = tuple(
        card(i)
        if i != 2
        else card(2, lost="GPU is lost", utilization_ratio=None, sm_clock_hertz=None, memory_clock_hertz=None)
        for i in range(8)
    )
    machine.book.see(GpuReading(at=machine.now, cards=lost))

    assert machine.kinds() == [(2, "lost")]
    assert [view.state for view in machine.book.views(machine.now)] == ["ok"] * 2 + ["lost"] + ["ok"] * 5
    assert machine.view(2).outlier is None


def test_a_card_that_is_not_listed_any_more_keeps_its_row() -> None:
    machine = Machine(4).run(20)
    machine.now += 1
    machine.book.see(GpuReading(at=machine.now, cards=tuple(card(i) for i in range(3))))

    assert machine.kinds() == [(3, "lost")]
    assert machine.view(3).card.uuid == "GPU-3" and machine.view(3).card.power_watts is None


def test_a_lost_card_that_has_forgotten_its_name_is_still_the_same_card() -> None:
    machine = Machine(2).run(20)
    machine.now += 1
    nameless = card(1, uuid=None, lost="GPU is lost")
    machine.book.see(GpuReading(at=machine.now, cards=(card(0), nameless)))

    assert len(machine.book.views(machine.now)) == 2
    assert machine.view(1).state == "lost"


def test_silence_is_not_health() -> None:
    machine = Machine().run(LEARN).run(20, only(3, reasons=0x40))
    machine.now += 60

    assert {view.state for view in machine.book.views(machine.now)} == {"stale"}
    assert machine.book.findings(machine.now) == ()


def test_nothing_is_known_before_the_first_reading() -> None:
    machine = Machine()

    assert machine.book.views(machine.now) == () and machine.book.findings(machine.now) == ()
    assert machine.book.host(machine.now) is None


def test_a_grave_xid_is_held_against_its_card_for_a_while() -> None:
    machine = Machine().run(20)
    machine.book.xid(Xid(at=machine.now, code=48, pci_bus="0000:14:00"))
    machine.run(1)

    (found,) = machine.findings()
    assert (found.index, found.kind, found.grade) == (3, "xid", "critical")
    assert found.sentence == "Xid 48 on GPU 3: memory error that could not be corrected"
    assert machine.view(3).xids == {"48": 1} and machine.view(3).state == "critical"

    machine.run(int(XID_SECONDS) + 30)
    assert machine.findings() == ()
    assert machine.view(3).xids == {"48": 1}


def test_the_same_fault_from_two_witnesses_counts_once_and_a_repeat_twice() -> None:
    machine = Machine().run(20)
    machine.book.xid(Xid(at=machine.now, code=94, pci_bus="0000:14:00"))
    machine.book.xid(Xid(at=machine.now + 1.5, code=94, pci_bus="0000:14:00"))
    assert machine.view(3).xids == {"94": 1}

    machine.book.xid(Xid(at=machine.now + 60, code=94, pci_bus="0000:14:00.0"))
    assert machine.view(3).xids == {"94": 2}


@pytest.mark.parametrize("code", [13, 31, 43, 63, 92, 45, 12345])
def test_an_xid_off_the_lists_is_counted_and_accuses_nobody(code: int) -> None:
    machine = Machine().run(20)
    machine.book.xid(Xid(at=machine.now, code=code, pci_bus="0000:14:00"))

    assert machine.findings() == ()
    assert machine.view(3).xids == {str(code): 1}


def test_an_xid_is_known_without_any_reading_of_cards() -> None:
    machine = Machine()
    machine.book.xid(Xid(at=machine.now, code=None, pci_bus="0000:b3:00.0"))

    (found,) = machine.findings()
    assert (found.index, found.kind) == (None, "xid")
    assert found.sentence == "Xid 79 on 0000:b3:00: the card has fallen off the bus"


def test_faults_that_were_told_before_their_card_was_known_are_given_to_it() -> None:
    machine = Machine()
    machine.book.xid(Xid(at=machine.now - 60, code=48, pci_bus="0000:14:00"))
    machine.book.xid(Xid(at=machine.now - 60, code=13, pci_bus="0000:15:00"))
    machine.run(2)

    assert machine.kinds() == [(3, "xid")]
    assert machine.findings()[0].since == BEGIN - 60 and "on GPU 3" in machine.findings()[0].sentence
    assert [view.xids for view in machine.book.views(machine.now)][3:5] == [{"48": 1}, {"13": 1}]


def test_a_log_that_makes_up_faults_fills_no_memory() -> None:
    machine = Machine(1).run(2)
    for number in range(5000):
        machine.book.xid(Xid(at=machine.now, code=number, pci_bus=f"0000:{number % 256:02x}:{number // 256:02x}"))
        machine.book.xid(Xid(at=machine.now, code=number, pci_bus="0000:11:00"))

    assert len(machine.view(0).xids) == 64
    assert len(machine.findings()) <= 128


def test_a_fault_without_an_address_is_the_hosts() -> None:
    machine = Machine().run(2)
    machine.book.xid(Xid(at=machine.now, code=62))

    assert [(item.index, item.sentence) for item in machine.findings()] == [
        (None, "Xid 62 on a GPU: internal micro-controller halt")
    ]


def test_cards_are_told_by_the_rank_that_runs_on_them() -> None:
    machine = Machine(2)
    machine.book.see(
        HostReading(at=machine.now, processes=(HostProcess(pid=7, role="scheduler", rank="TP1"),)),
    )
    processes = (GpuProcess(pid=7, memory_bytes=5), GpuProcess(pid=8, memory_bytes=1))
    machine.run(20, only(1, processes=processes))

    assert [view.rank for view in machine.book.views(machine.now)] == [None, "TP1"]
    assert [view.rank_memory_bytes for view in machine.book.views(machine.now)] == [None, 5]


def test_cards_of_another_make_are_no_peers() -> None:
    machine = Machine(6).run(30, lambda i, _: {"name": "Other", "sm_clock_hertz": 1.2e9} if i >= 3 else {})

    assert machine.findings() == ()


def test_a_card_that_reports_next_to_nothing_is_shown_and_not_judged() -> None:
    bare = dict.fromkeys(
        (
            "utilization_ratio",
            "sm_clock_hertz",
            "memory_clock_hertz",
            "power_watts",
            "memory_used_bytes",
            "memory_total_bytes",
            "performance_state",
            "reasons",
            "pcie_generation",
            "pcie_width",
            "remap_pending",
            "recovery_action",
            "nvlinks_active",
        )
    )
    machine = Machine(1).run(LEARN, every(ecc_errors={}, nvlink_errors={}, **bare))

    view = machine.view(0)
    assert machine.findings() == ()
    assert (view.state, view.loaded, view.outlier, view.normal_sm_clock_hertz) == ("ok", None, None, None)
    assert view.trend is not None and set(view.trend.sm_clock_hertz) == {None}


def test_the_trend_is_bounded_and_ends_now() -> None:
    machine = Machine(1).run(600).run(10, every(power_watts=100.0))
    trend = machine.view(0).trend

    assert trend is not None and len(trend.power_watts) == 24
    assert trend.power_watts[-1] == 100.0 and trend.power_watts[0] == 410.0


def test_equal_readings_give_equal_views() -> None:
    one, two = Machine().run(90, healthy), Machine().run(90, healthy)

    assert one.book.views(one.now) == two.book.views(two.now)

"""Every way in which NVML fails: lost cards, drivers that refuse, calls that hang or crash; the rest goes on."""

import sys
import time
from pathlib import Path

import psutil
import pytest
from ddwatch_sidecar.sources.nvml_faults import MEANINGS, meaning

from tests.fakes.nvml_stub.library import uuid
from tests.sidecar.sources.nvml_world import Stub, World

SHORT_ROUNDS = (
    sys.executable,
    "-c",
    "import sys; from ddwatch_sidecar.sources import nvml_child as child; child.SLOW_SECONDS = 0.5; "
    "sys.exit(child.main(sys.argv[1:]))",
)
"""The child with its slow fields read twice a second."""


class Hand:
    """A monotonic clock that a test may push forward."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at + time.monotonic()


def test_a_lost_card_is_a_row_that_says_so_and_is_left_alone(stub: Stub) -> None:
    world = stub(cards=4)
    world.until(lambda: world.readings)
    assert world.machine is not None
    world.machine.set("gpu 1 * error 15")
    world.until(lambda: world.cards[1].lost)
    lost = world.cards[1]
    # A call on a dead handle would crash this process: it must not come.
    world.machine.set("gpu 1 * crash")
    world.fresh()

    assert (lost.uuid, lost.lost, lost.power_watts) == (uuid(1), "GPU is lost", None)
    assert [card.power_watts for card in world.cards] == [410.0, None, 410.0, 410.0]
    assert world.faults == [] and len(world.ups) == 1


def test_a_card_that_is_lost_from_the_beginning_is_a_row_too(stub: Stub) -> None:
    world = stub("gpu 0 handle error 15")
    world.until(lambda: world.readings)

    assert world.cards[0].lost == "GPU is lost" and world.cards[1].power_watts == 410.0


def test_a_card_that_only_fails_is_lost_after_some_rounds(stub: Stub) -> None:
    world = stub()
    world.until(lambda: world.readings)
    assert world.machine is not None
    world.machine.set("gpu 0 * error 999")
    world.until(lambda: world.cards[0].lost)

    assert world.cards[0].lost == "Unknown Error" and world.cards[1].lost is None


def test_cards_that_come_and_go_are_counted_anew(stub: Stub) -> None:
    world = stub(cards=2, command=SHORT_ROUNDS)
    world.until(lambda: len(world.cards) == 2)
    assert world.machine is not None
    world.machine.set(cards=3)
    world.until(lambda: len(world.cards) == 3)
    world.machine.set(cards=1)
    world.until(lambda: len(world.cards) == 1)

    assert world.faults == []


@pytest.mark.parametrize("code", sorted(code for code in MEANINGS if code > 0))
def test_a_driver_that_refuses_is_one_sentence_with_its_remedy(stub: Stub, code: int) -> None:
    world = stub(f"sys init error {code}")
    world.until(lambda: world.faults)

    assert world.faults == [MEANINGS[code].sentence]
    assert world.readings == [] and world.endpoint.pid is None


def test_an_unknown_refusal_keeps_its_own_words() -> None:
    assert "Odd Thing, code 77" in meaning(77, "Odd Thing").sentence


def test_without_any_driver_nothing_is_broken(tmp_path: Path) -> None:
    world = World({"LD_LIBRARY_PATH": str(tmp_path), "LD_PRELOAD": ""})
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    world.until(lambda: world.records)

    (fault,) = world.records
    assert getattr(fault, "waiting", None) is True
    assert "libnvidia-ml.so.1" in world.faults[0] and "--no-nvml" in world.faults[0]


def test_a_driver_that_is_replaced_while_we_read_is_told_and_found_again(stub: Stub) -> None:
    world = stub()
    world.until(lambda: world.readings)
    assert world.machine is not None
    world.machine.set("gpu * * error 18")
    world.until(lambda: world.faults)

    assert "different versions" in world.faults[0] and "reboot" in world.faults[0]
    assert world.endpoint.pid is None


def test_a_driver_that_comes_back_is_up_again(stub: Stub) -> None:
    hand = Hand()
    world = stub("sys init error 9", monotonic=hand)
    world.until(lambda: world.faults)
    assert world.machine is not None
    world.machine.set()
    hand.at += 3600
    world.until(lambda: world.readings)

    assert len(world.faults) == 1 and len(world.ups) == 1


def test_a_call_that_hangs_names_its_card_and_the_others_are_read_on(stub: Stub) -> None:
    world = stub(cards=3, hang_seconds=1.5)
    world.until(lambda: world.readings)
    assert world.machine is not None
    world.machine.set("gpu 1 power block")
    world.until(lambda: world.cards[1].lost)

    assert world.faults[0] == "NVML does not answer at GPU 1; its reader is started again"
    assert "left alone" in str(world.cards[1].lost) and world.cards[1].uuid == uuid(1)
    assert world.cards[0].power_watts == world.cards[2].power_watts == 410.0


def test_a_call_that_crashes_names_its_card_and_the_others_are_read_on(stub: Stub) -> None:
    world = stub(cards=3)
    world.until(lambda: world.readings)
    assert world.machine is not None
    world.machine.set("gpu 2 temperature crash")
    world.until(lambda: world.cards[2].lost)

    assert world.faults[0] == "the NVML reader crashed at GPU 2 (SIGSEGV); it is started again"
    assert [card.power_watts for card in world.cards] == [410.0, 410.0, None]
    assert len(world.names) == 1


def test_a_child_that_is_killed_is_started_again(stub: Stub) -> None:
    world = stub()
    world.until(lambda: world.readings)
    pid = world.endpoint.pid
    assert pid is not None
    psutil.Process(pid).kill()
    world.until(lambda: world.faults)
    seen = len(world.readings)
    world.until(lambda: len(world.readings) > seen)

    assert "SIGKILL" in world.faults[0] and len(world.ups) == 2


def test_a_child_that_cannot_run_says_why() -> None:
    world = World({}, command=(sys.executable, "-c", "raise SystemExit('no such thing')"))
    world.until(lambda: world.faults)

    assert world.faults[0] == "the NVML reader ended with code 1 (no such thing)"


def test_a_command_that_does_not_exist_is_a_fault(tmp_path: Path) -> None:
    world = World({}, command=(str(tmp_path / "nothing"),))
    world.until(lambda: world.faults)

    assert "cannot be started" in world.faults[0]


def test_faults_are_told_once(stub: Stub) -> None:
    hand = Hand()
    world = stub("sys init error 18", monotonic=hand)
    world.until(lambda: world.faults)
    polls = world.endpoint
    for _ in range(5):
        hand.at += 3600
        world.until(lambda: polls.pid is not None)
        world.until(lambda: polls.pid is None)

    assert len(world.faults) == 1

"""The NVML reader against the real pynvml: one contract for the stub and for a real card, and every way to fail."""

import time
from collections.abc import Iterator

import psutil
import pytest
from ddwatch_sidecar.sources.nvml import FLOOR_SECONDS, NvmlEndpoint
from ddwatch_sidecar.sources.nvml_lines import short_bus

from ddwatch.core.hardware import GpuInstance
from tests.fakes.nvml_stub.library import bus, uuid
from tests.sidecar.sources.nvml_world import Stub, World, resident_mib

CHILD_MIB = 30.0
"""The budget of DESIGN.md section 8."""


class NvmlContract:
    """What holds of every machine with a card and a driver."""

    def test_cards_are_read_again_and_again(self, world: World) -> None:
        world.until(lambda: len(world.readings) >= 3)

        assert world.faults == [] and len(world.ups) == 1
        times = [reading.at for reading in world.readings]
        assert times == sorted(set(times))
        assert "GPU" in world.ups[0].detail and world.readings[0].driver

    def test_a_card_says_who_it_is(self, world: World) -> None:
        world.until(lambda: world.readings)

        assert [card.index for card in world.cards] == list(range(len(world.cards)))
        for card in world.cards:
            assert card.uuid is not None and card.uuid.startswith("GPU-") and card.lost is None
            assert card.pci_bus is not None and len(card.pci_bus) == len("0000:41:00.0")
        assert world.names == [tuple(card.name for card in world.cards)]

    def test_what_is_reported_is_plausible_in_its_unit(self, world: World) -> None:
        world.until(lambda: world.readings)

        bounds = {
            "utilization_ratio": (0.0, 1.0),
            "memory_utilization_ratio": (0.0, 1.0),
            "sm_clock_hertz": (1e7, 5e9),
            "memory_clock_hertz": (1e7, 3e10),
            "power_watts": (1.0, 3000.0),
            "power_limit_watts": (10.0, 3000.0),
            "temperature_celsius": (1.0, 120.0),
            "memory_total_bytes": (2**28, 2**42),
            "memory_used_bytes": (0, 2**42),
            "performance_state": (0, 15),
            "pcie_generation": (1, 9),
            "pcie_width": (1, 32),
            "pcie_generation_max": (1, 9),
            "pcie_width_max": (1, 32),
            "pcie_replays": (0, 2**40),
            "nvlinks": (1, 36),
        }
        for card in world.cards:
            for name, (low, high) in bounds.items():
                value = getattr(card, name)
                assert value is None or low <= value <= high, (name, value)
            assert all(0.0 <= seconds < 1e9 for seconds in card.reason_seconds.values())
            assert all(count >= 0 for count in card.ecc_errors.values())

    def test_the_child_is_small_and_goes_with_its_endpoint(self, world: World) -> None:
        world.until(lambda: len(world.readings) >= 2)
        pid = world.endpoint.pid
        assert pid is not None and resident_mib(pid) < CHILD_MIB
        world.close()

        assert not psutil.pid_exists(pid)


class TestStub(NvmlContract):
    """The contract on eight simulated cards."""

    @pytest.fixture
    def world(self, stub: Stub) -> World:
        return stub(cards=8)


@pytest.mark.gpu
class TestRealCard(NvmlContract):
    """The contract on this machine's cards."""

    @pytest.fixture
    def world(self) -> Iterator[World]:
        world = World({})
        yield world
        world.close()


def test_every_value_of_a_healthy_card_arrives_in_base_units(stub: Stub) -> None:
    world = stub(
        "gpu 1 process_pid 4711", "gpu 1 process_memory 92000000000", "gpu 1 links 18", "gpu 1 links_active 17"
    )
    world.until(lambda: world.readings)
    card = world.cards[1]

    assert (card.uuid, card.pci_bus) == (uuid(1), bus(1))
    assert (card.utilization_ratio, card.sm_clock_hertz, card.memory_clock_hertz) == (0.97, 2.37e9, 12.481e9)
    assert (card.power_watts, card.power_limit_watts, card.temperature_celsius) == (410.0, 600.0, 61.0)
    assert (card.performance_state, card.reasons, card.mig) == (0, 0, False)
    assert (card.pcie_generation, card.pcie_width, card.pcie_generation_max, card.pcie_width_max) == (5, 16, 5, 16)
    assert card.reason_seconds["sw_power_cap"] == 5.0 and card.ecc_errors["corrected_lifetime"] == 3
    assert (card.recovery_action, card.remap_pending, card.memory_temperature_celsius) == ("none", False, 70.0)
    assert (card.nvlinks, card.nvlinks_active) == (18, 17)
    assert [(process.pid, process.memory_bytes) for process in card.processes] == [(4711, 92_000_000_000)]
    assert (world.cards[0].nvlinks, world.cards[0].processes) == (None, ())


@pytest.mark.parametrize("cards", [1, 16])
def test_any_number_of_cards(stub: Stub, cards: int) -> None:
    world = stub(cards=cards)
    world.until(lambda: world.readings)

    assert [card.uuid for card in world.cards] == [uuid(index) for index in range(cards)]


def test_values_change_over_time(stub: Stub) -> None:
    world = stub("gpu 0 power wave 100000 500000 3")
    world.until(lambda: len({reading.cards[0].power_watts for reading in world.readings}) >= 3)


ERRORS = [1, 2, 3, 4, 6, 7, 9, 10, 13, 17, 20, 21, 22, 25, 27, 999]
FAST = ["utilization", "sm_clock", "memory_clock", "power", "temperature", "memory_total", "pstate", "reasons"]
ATTRIBUTES = [
    "utilization_ratio",
    "sm_clock_hertz",
    "memory_clock_hertz",
    "power_watts",
    "temperature_celsius",
    "memory_total_bytes",
    "performance_state",
    "reasons",
]


@pytest.mark.parametrize("error", [code for code in ERRORS if code not in (1, 9)])
def test_each_field_fails_by_itself(stub: Stub, error: int) -> None:
    world = stub(*(f"gpu {i} {key} error {error}" for i, key in enumerate(FAST)), cards=len(FAST))
    world.until(lambda: world.readings)

    for index, card in enumerate(world.cards):
        absent = [name for name in ATTRIBUTES if getattr(card, name) is None]
        assert absent == [ATTRIBUTES[index]], card
    assert world.faults == []


def test_a_field_that_recovers_is_there_again(stub: Stub) -> None:
    world = stub("gpu 0 power error 999")
    world.until(lambda: world.readings)
    assert world.cards[0].power_watts is None
    assert world.machine is not None
    world.machine.set()
    world.until(lambda: world.cards[0].power_watts == 410.0)


def test_what_is_not_supported_is_absent_and_never_zero(stub: Stub) -> None:
    world = stub("gpu 0 * error 3", "gpu 0 uuid GPU-bare")
    world.until(lambda: world.readings)
    card = world.cards[0]

    told = {name: getattr(card, name) for name in card.__struct_fields__ if getattr(card, name) not in (None, {}, ())}
    assert set(told) <= {"index", "uuid", "reason_seconds", "ecc_errors"} and card.lost is None
    assert not any(told.get("reason_seconds", {}).values())
    assert world.cards[1].power_watts == 410.0


def test_what_the_driver_does_not_know_is_absent(stub: Stub) -> None:
    unknown = "4294967295"
    keys = ("power", "sm_clock", "temperature", "link_gen", "replays")
    world = stub(*(f"gpu 0 {key} {unknown}" for key in keys), "gpu 0 pstate 32", "gpu 0 link_width 0")
    world.until(lambda: world.readings)
    card = world.cards[0]

    assert (card.power_watts, card.sm_clock_hertz, card.temperature_celsius) == (None, None, None)
    assert (card.performance_state, card.pcie_generation, card.pcie_width, card.pcie_replays) == (None,) * 4


@pytest.mark.parametrize(("driver", "seconds"), [("580.95.05", 2.0), ("580.65.06", 7.0), ("570.172.08", None)])
def test_the_time_under_heat_is_that_of_the_drivers_own_counter(stub: Stub, driver: str, seconds: float | None) -> None:
    """In nanoseconds; one driver's number for it is another one's power smoothing."""
    world = stub(f"sys driver {driver}", "gpu * field_270 2000000000", "gpu * field_252 7000000000")
    world.until(lambda: world.readings)

    assert world.cards[0].reason_seconds.get("hw_thermal_slowdown") == seconds
    assert world.cards[0].reason_seconds["sw_power_cap"] == 5.0


def test_a_split_card_has_no_utilization_even_when_the_driver_says_0(stub: Stub) -> None:
    world = stub("gpu 0 mig 1", "gpu 0 utilization 0")
    world.until(lambda: world.readings)

    assert (world.cards[0].mig, world.cards[0].utilization_ratio) == (True, None)
    assert world.cards[0].memory_used_bytes is not None


def test_the_parts_of_a_split_card_are_listed_each_with_what_it_tells(stub: Stub) -> None:
    """Part 0 of card 1 answers as card 1016 in the stub."""
    world = stub(
        "gpu 1 mig 1",
        "gpu 1 parts_max 7",
        "gpu 1 parts 2",
        "gpu 1016 uuid MIG-aaaa",
        "gpu 1016 name NVIDIA H200 MIG 3g.71gb",
        "gpu 1016 gpu_instance 2",
        "gpu 1016 compute_instance 0",
        f"gpu 1016 memory_total {71 * 2**30}",
        f"gpu 1016 memory_used {3 * 2**30}",
        "gpu 1017 uuid MIG-bbbb",
        "gpu 1017 name error 4",
        "gpu 1017 memory_total error 4",
    )
    world.until(lambda: world.readings)

    assert world.cards[0].instances == ()
    assert world.cards[1].instances == (
        GpuInstance(
            uuid="MIG-aaaa",
            profile="3g.71gb",
            gpu_instance=2,
            compute_instance=0,
            memory_total_bytes=71 * 2**30,
            memory_used_bytes=3 * 2**30,
        ),
        GpuInstance(uuid="MIG-bbbb"),
    )
    assert world.cards[1].mig is True and world.cards[1].lost is None


def test_unified_memory_leaves_the_other_fields(stub: Stub) -> None:
    world = stub("gpu * memory_total error 3", "gpu * memory_used error 3")
    world.until(lambda: world.readings)

    assert (world.cards[0].memory_total_bytes, world.cards[0].memory_used_bytes) == (None, None)
    assert world.cards[0].sm_clock_hertz == 2.37e9


def test_an_old_driver_without_newer_calls_is_read_by_the_older_ones(stub: Stub) -> None:
    world = stub(
        without=(
            "nvmlDeviceGetTemperatureV",
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetFieldValues",
            "nvmlDeviceGetRemappedRows",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetNvLinkState",
            "nvmlEventSetCreate",
        )
    )
    world.until(lambda: world.readings)
    card = world.cards[0]

    assert (card.temperature_celsius, card.reasons, card.memory_used_bytes) == (61.0, 0, 88 * 2**30)
    assert (card.recovery_action, card.remap_pending, card.reason_seconds, card.processes) == (None, None, {}, ())
    assert "no Xid from NVML" in world.ups[0].detail and world.faults == []


def test_xids_arrive_as_a_stream_with_the_address_of_their_card(stub: Stub) -> None:
    world = stub(cards=4)
    world.until(lambda: world.readings)
    assert world.machine is not None
    for number, (index, code) in enumerate(((3, 79), (0, 31), (3, 79)), start=1):
        world.machine.xid(index, code)
        world.until_xids(number)

    assert [(xid.code, xid.pci_bus) for xid in world.xids] == [
        (79, bus(3).rpartition(".")[0]),
        (31, bus(0).rpartition(".")[0]),
        (79, bus(3).rpartition(".")[0]),
    ]


def test_pcie_throughput_is_not_read_unless_it_is_asked_for(stub: Stub) -> None:
    rules = ("gpu * pcie_rx 1000", "gpu * pcie_tx 2000")
    world = stub("gpu * pcie_rx block", "gpu * pcie_tx block", hang_seconds=1.5)
    world.until(lambda: len(world.readings) >= 3)
    assert world.cards[0].pcie_receive_bytes_per_second is None

    asked = stub(*rules, throughput=True)
    asked.until(lambda: asked.readings)
    assert asked.cards[0].pcie_receive_bytes_per_second == 1000 * 1024
    assert asked.cards[0].pcie_send_bytes_per_second == 2000 * 1024


def test_of_rounds_that_waited_only_the_last_is_told(stub: Stub) -> None:
    world = stub()
    world.until(lambda: world.readings)
    pid = world.endpoint.pid
    assert pid is not None
    seen = len(world.readings)
    child = psutil.Process(pid)
    a_round, before = 1500 * len(world.cards), child.io_counters().write_chars
    deadline = time.monotonic() + 30
    # Nobody polls while the child writes on.
    while child.io_counters().write_chars < before + 3 * a_round:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    world.until(lambda: len(world.readings) > seen)

    assert len(world.readings) == seen + 1


def test_it_is_never_read_faster_than_the_floor() -> None:
    endpoint = NvmlEndpoint(seconds=0.01)

    assert str(FLOOR_SECONDS) in endpoint._command


@pytest.mark.parametrize(
    ("raw", "short"),
    [
        ("00000000:41:00.0", "0000:41:00.0"),
        ("00000001:C1:00.0", "0001:c1:00.0"),
        ("odd", "odd"),
        ("0:1:2.3", "0000:1:2.3"),
    ],
)
def test_addresses_are_written_as_lspci_writes_them(raw: str, short: str) -> None:
    assert short_bus(raw) == short

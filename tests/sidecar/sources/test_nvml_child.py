"""The child by itself: it leaves with whoever started it, loads little, and reads ten fields a second at most."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml  # type: ignore[import-untyped]
import pytest
from ddwatch_sidecar.sources import nvml_fields
from ddwatch_sidecar.sources.nvml import CHILD
from ddwatch_sidecar.sources.nvml_lines import CardLine, Opened, Round, decode

from tests.fakes.nvml_stub.library import LIBRARY, Machine
from tests.sidecar.sources.nvml_world import World

FOREIGN = ("psutil", "aiohttp", "asyncio", "prometheus_client", "textual", "rich", "httpx", "ddwatch_sidecar.service")


@pytest.fixture
def child(
    needs_command: Callable[[str], Path], libraries: Callable[..., Path], tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    needs_command("gcc")
    environment = Machine(tmp_path / "scenario", 2).environment(libraries())
    process = subprocess.Popen(
        [*CHILD, "--seconds", "0.5"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )
    yield process
    process.kill()
    process.wait(10)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def test_its_lines_come_in_the_order_of_the_cards(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    lines = [decode(child.stdout.readline()) for _ in range(4)]

    assert isinstance(lines[0], Opened) and (lines[0].cards, lines[0].watches_xids) == (2, True)
    assert [line.card.index for line in lines if isinstance(line, CardLine)] == [0, 1]
    assert isinstance(lines[3], Round)


def test_it_leaves_when_its_stdin_ends(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None and child.stdout is not None
    child.stdout.readline()
    child.stdin.close()

    assert child.wait(10) == 0


def test_it_leaves_silently_when_nobody_reads(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()

    assert child.wait(10) == 0
    assert child.stderr.read() == b""


def test_it_loads_nothing_that_it_does_not_need() -> None:
    look = f"import sys, ddwatch_sidecar.sources.nvml_child; print([m for m in {FOREIGN!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    assert result.stdout == "[]\n"


def test_ten_fields_are_read_each_second() -> None:
    names = [field.name for field in (*nvml_fields.FAST, *nvml_fields.SLOW, nvml_fields.THROUGHPUT)]

    assert len(nvml_fields.FAST) == 10
    assert len(set(names)) == len(names)


def test_recovery_actions_are_those_of_the_library() -> None:
    known = {
        value: name.removeprefix("NVML_GPU_RECOVERY_ACTION_")
        for name, value in vars(pynvml).items()
        if name.startswith("NVML_GPU_RECOVERY_ACTION_")
    }

    assert set(known) <= set(nvml_fields.RECOVERY)
    assert known[0] == "NONE" and nvml_fields.RECOVERY[0] == "none"


def test_numbers_of_batched_fields_are_those_of_the_library() -> None:
    assert nvml_fields.RECOVERY_ACTION_ID == pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    assert nvml_fields.MEMORY_TEMPERATURE_ID == pynvml.NVML_FI_DEV_MEMORY_TEMP
    assert nvml_fields.RETIRED_PENDING_ID == pynvml.NVML_FI_DEV_RETIRED_PENDING
    assert list(nvml_fields.reason_ids("580.95.05")) == [
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
    ]
    assert list(nvml_fields.NVLINK_ERROR_IDS) == [
        pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
        pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
        pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
    ]


@pytest.mark.parametrize(
    ("driver", "first"),
    [
        ("615.71.02", 269),
        ("580.82.07", 269),
        ("580.76.05", None),
        ("580.65.06", 251),
        ("575.51.03", 251),
        ("570.172.08", None),
        ("535.288.01", None),
        ("595", 269),
        ("a driver", None),
        (None, None),
    ],
)
def test_counters_of_heat_are_asked_for_by_the_number_that_this_driver_gives_them(
    driver: str | None, first: int | None
) -> None:
    """The same numbers mean power smoothing in other drivers: a wrong one would be a wrong time, none is absent."""
    ids = nvml_fields.reason_ids(driver)

    assert {ids[74], ids[76]} == {"sw_power_cap", "sync_boost"}
    assert [number for number in ids if number > 76] == ([] if first is None else [first, first + 1, first + 2])


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("x", None)])
def test_the_numa_node_of_a_card_is_the_kernels(tmp_path: Path, text: str, node: int | None) -> None:
    (tmp_path / "0000:41:00.0").mkdir()
    (tmp_path / "0000:41:00.0" / "numa_node").write_text(text)

    assert nvml_fields.numa_node("0000:41:00.0", tmp_path) == node
    assert nvml_fields.numa_node("0000:99:00.0", tmp_path) is None


def test_a_given_library_is_the_only_one_that_is_loaded(
    needs_command: Callable[[str], Path], libraries: Callable[..., Path], tmp_path: Path
) -> None:
    """The folder on the search path stands for the driver of a machine with cards of its own."""
    needs_command("gcc")
    given = tmp_path / "given.so"
    given.write_bytes((libraries() / LIBRARY).read_bytes())
    machine = Machine(tmp_path / "scenario", 3)
    world = World(machine.environment(libraries()), machine, library=str(given))
    try:
        world.until(lambda: len(world.cards) == 3)
        maps = Path(f"/proc/{world.endpoint.pid}/maps").read_text()
        assert str(given) in maps
        assert LIBRARY not in maps
    finally:
        world.close()


def test_a_given_library_that_cannot_be_loaded_is_a_fault_and_no_other_one_is_tried(
    needs_command: Callable[[str], Path], libraries: Callable[..., Path], tmp_path: Path
) -> None:
    needs_command("gcc")
    machine = Machine(tmp_path / "scenario", 3)
    world = World(machine.environment(libraries()), machine, library=str(tmp_path / "absent.so"))
    try:
        world.until(lambda: world.faults)
        assert "the GPU library that was given cannot be loaded" in world.faults[0]
        assert world.cards == ()
    finally:
        world.close()

"""Compiles the stub of the driver's library and writes its scenarios: machines of 1 to 16 cards, healthy or not."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ddwatch.demo.gpus.library import compiled

LIBRARY = "libnvidia-ml.so.1"
GIB = 1024**3

CARD: dict[str, object] = {
    "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "utilization": 97,
    "memory_utilization": 60,
    "sm_clock": 2370,
    "memory_clock": 12481,
    "sm_clock_max": 2430,
    "memory_clock_max": 12481,
    "power": 410_000,
    "power_limit": 600_000,
    "temperature": 61,
    "slowdown": 92,
    "memory_total": 96 * GIB,
    "memory_used": 88 * GIB,
    "pstate": 0,
    "reasons": 0,
    "link_gen": 5,
    "link_width": 16,
    "link_gen_max": 5,
    "link_width_max": 16,
    "replays": 0,
    "mig": 0,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "ecc_corrected_lifetime": 3,
    "ecc_uncorrected_lifetime": 0,
    "remap_pending": 0,
    "rows_remapped": 0,
    "field_82": 70,
    "field_230": 0,
    "field_74": 5_000_000_000,
    "field_269": 0,
    "field_270": 0,
    "field_271": 0,
}
"""A healthy card at work, by the stub's keys and in NVML's units."""


def build(folder: Path, *, without: Sequence[str] = ()) -> Path:
    """Compiles the library into a folder, which LD_LIBRARY_PATH then names; returns the folder.

    Args:
        folder: where it goes.
        without: functions that this driver is too old to have.

    Raises:
        NoLibrary: when there is no gcc, or when it does not compile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "exports.map"
    # Exact names win over patterns: what is listed as local is not there for whoever loads the library.
    script.write_text(f"{{ global: nvml*; local: {' '.join(f'{name};' for name in (*without, 'begin'))} }};\n")
    compiled("gcc", folder / LIBRARY, ("-Wall", "-Werror", f"-Wl,--version-script={script}"))
    return folder


def uuid(index: int) -> str:
    """The UUID of a card in every scenario."""
    return f"GPU-{index:08x}-1111-2222-3333-444444444444"


def bus(index: int) -> str:
    """The PCI address of a card in every scenario, as lspci writes it."""
    return f"0000:{0x11 + 0x10 * (index % 15):02x}:{index // 15:02x}.0"


class Machine:
    """One scenario file; every change replaces it as a whole."""

    def __init__(self, path: Path, cards: int = 8) -> None:
        """Writes a healthy machine with this many cards."""
        self.path = path
        self._cards = cards
        self._rules: list[str] = []
        self._xids: list[str] = []
        self.set()

    def environment(self, folder: Path) -> dict[str, str]:
        """What a process needs so that it meets this machine through the library in a folder."""
        return {"DDWATCH_NVML_SCENARIO": str(self.path), "LD_LIBRARY_PATH": str(folder)}

    def set(self, *rules: str, cards: int | None = None) -> None:
        """Replaces all deviations from the healthy machine by these rules."""
        self._rules = list(rules)
        self._cards = self._cards if cards is None else cards
        self._write()

    def xid(self, index: int, code: int) -> None:
        """Delivers a fault, once."""
        self._xids.append(f"xid {len(self._xids) + 1} {index} {code}")
        self._write()

    def _write(self) -> None:
        lines = [f"sys count {self._cards}", "sys driver 580.95.05"]
        lines += [f"gpu * {key} {value}" for key, value in CARD.items()]
        for index in range(self._cards):
            lines += [f"gpu {index} uuid {uuid(index)}", f"gpu {index} pci 0000{bus(index).upper()}"]
        text = "\n".join([*lines, *self._rules, *self._xids]) + "\n"
        handle, name = tempfile.mkstemp(dir=self.path.parent)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        Path(name).replace(self.path)

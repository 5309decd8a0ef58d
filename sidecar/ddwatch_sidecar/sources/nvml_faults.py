"""What NVML's refusals mean to an operator, each in one sentence with its remedy."""

from typing import NamedTuple

from ddwatch_sidecar.sources.nvml_lines import NO_MODULE, NOT_LOADED


class Meaning(NamedTuple):
    """How a refusal is told, and how soon it is worth trying again."""

    sentence: str
    retry_seconds: float
    waiting: bool = False
    """Nothing is broken: there is simply no NVIDIA driver here."""


ELSE = "everything else works"
SOON, LATER, RARELY = 10.0, 60.0, 300.0
NO_LIBRARY = 12

MEANINGS: dict[int, Meaning] = {
    NO_MODULE: Meaning(f"the Python package nvidia-ml-py is not installed here, so GPUs are not read; {ELSE}", RARELY),
    1: Meaning("the NVIDIA driver let go of its library; it is opened again", SOON),
    4: Meaning(
        "this user may not talk to the NVIDIA driver: give it access to /dev/nvidiactl and /dev/nvidia*, or in a "
        f"container pass the GPUs through; {ELSE}",
        LATER,
    ),
    9: Meaning(
        f"the NVIDIA kernel module is not loaded: try modprobe nvidia, and look at dmesg for why it is not; {ELSE}",
        LATER,
    ),
    NO_LIBRARY: Meaning(
        "no NVIDIA driver library (libnvidia-ml.so.1) here; in a container start it with --gpus all and the driver "
        "capability utility; without GPUs use --no-nvml",
        RARELY,
        waiting=True,
    ),
    13: Meaning(f"the NVIDIA driver is too old for its own library; update it; {ELSE}", RARELY),
    15: Meaning("a GPU is lost and the NVIDIA driver does not open any more: look at dmesg for Xid, reboot", LATER),
    18: Meaning(
        "NVIDIA driver and library have different versions (the driver was updated while its module stayed loaded): "
        f"reboot, or stop all GPU work and reload the module; {ELSE}",
        LATER,
    ),
}


def meaning(code: int, words: str) -> Meaning:
    """What a return code of NVML means; one that is not known keeps NVML's own words."""
    if code == NOT_LOADED:
        return Meaning(f"the GPU library that was given cannot be loaded ({words}); {ELSE}", RARELY)
    known = MEANINGS.get(code)
    if known is not None:
        return known
    return Meaning(f"NVML cannot be used ({words}, code {code}); nvidia-smi may say more; {ELSE}", LATER)

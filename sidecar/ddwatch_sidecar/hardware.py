"""Which witnesses of the machine itself a sidecar has: its GPUs, its host, its kernel log."""

from ddwatch_sidecar.config import Settings
from ddwatch_sidecar.contract import Endpoint
from ddwatch_sidecar.sources.absent import AbsentCards
from ddwatch_sidecar.sources.nvml import FLOOR_SECONDS, NvmlEndpoint


def hardware_endpoints(settings: Settings) -> list[Endpoint]:
    """The endpoints, none when they were turned off.

    A simulated service does not run on this machine's cards: its cards are simulated too, by a library that is given,
    or there are none. Host and kernel of this machine stay out of its picture.
    """
    if settings.nvml is False:
        return []
    if settings.nvml_absent is not None:
        return [AbsentCards(settings.nvml_absent)]
    if settings.simulated and settings.nvml_library is None:
        return []
    nvml = NvmlEndpoint(seconds=settings.gpu_seconds, throughput=settings.gpu_throughput, library=settings.nvml_library)
    if settings.simulated:
        return [nvml]
    # Loaded only where they are used.
    from ddwatch_sidecar.sources.host import HostEndpoint
    from ddwatch_sidecar.sources.kernel_log import KernelLog

    return [nvml, HostEndpoint(), KernelLog()]


def too_often(settings: Settings) -> str | None:
    """One sentence when the GPUs were to be read more often than is good for them, None otherwise."""
    if settings.nvml is False or settings.gpu_seconds >= FLOOR_SECONDS:
        return None
    return (
        f"reading GPUs every {settings.gpu_seconds:g} s would slow the work on them, so they are read every "
        f"{FLOOR_SECONDS:g} s"
    )

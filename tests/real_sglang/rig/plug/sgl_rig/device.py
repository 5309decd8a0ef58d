"""Stands in for the time that a GPU takes: each decode step waits $RIG_DEVICE_SECONDS, and the CPU's own work comes on top.

Without it a step of the tiny model is CPU time alone, so that any neighbour on the machine slows it as no GPU would be slowed.
"""
import os, time

_seconds = float(os.environ.get("RIG_DEVICE_SECONDS", "0"))


def register():
    if _seconds <= 0:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    HookRegistry.register("sglang.srt.managers.scheduler.Scheduler.run_batch", _run_batch, HookType.AROUND)


def _run_batch(orig, self, batch, *a, **k):
    until = time.monotonic() + _seconds
    result = orig(self, batch, *a, **k)
    while batch.forward_mode.is_decode() and (left := until - time.monotonic()) > 0:
        time.sleep(left)
    return result

"""An event for CPU timing: torch.cpu.Event takes no arguments and records nothing; SGLang's DeviceTimer (FPM, SGLANG_ENABLE_METRICS_DEVICE_TIMER)
calls Event(enable_timing=True). CPU work is synchronous, so a wall clock reading is the true event time."""


def register():
    import time
    import torch

    class Event:
        def __init__(self, enable_timing=False, **k):
            self.t = None

        def record(self, stream=None):
            self.t = time.perf_counter()

        def query(self):
            return True

        def elapsed_time(self, other):
            return (other.t - self.t) * 1000.0

        def wait(self, stream=None):
            pass

        def synchronize(self):
            pass
    torch.cpu.Event = Event

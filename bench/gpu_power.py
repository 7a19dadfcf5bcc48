# SPDX-License-Identifier: Apache-2.0
"""Clock, power and energy of a CUDA GPU under one load: NVML's counters while graphs are replayed.

The energy counter advances in steps (of 100 ms on an H200), so power is the energy between its first and last step in a
block over the time between these, and the energy of a call is that power times the call's time.
"""
import ctypes
import math
import time

import torch

CLOCK_SM, SUCCESS = 1, 0
CHUNK_S = 0.01       # of replays that are queued together
LAG_S = 0.15         # of the counter, at most: steps this soon after the beginning of a block hold energy from before
POLL_CLOCK_S = 0.01  # between two readings of the clock


class Nvml:
    """One GPU of NVML; what it lacks is NAN."""

    def __init__(self, device=0):
        self.library, self.handle = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}".encode()
        result = self.library.nvmlInit_v2() or self.library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(self.handle))
        if result != SUCCESS:
            raise RuntimeError(f"NVML does not find {uuid.decode()}: error {result}")

    def read(self, function, kind, *arguments):
        value = kind()
        result = getattr(self.library, function)(self.handle, *arguments, ctypes.byref(value))
        return value.value if result == SUCCESS else math.nan

    def energy_mj(self):
        return self.read("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)

    def clock_mhz(self):
        return self.read("nvmlDeviceGetClockInfo", ctypes.c_uint, CLOCK_SM)

    def limit_w(self):
        return self.read("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint) / 1e3


class Meter:
    """Polls a GPU during a block."""

    def __init__(self, nvml):
        self.nvml, self.steps, self.clocks, self.next_clock = nvml, [], [], 0

    def begin(self):
        self.steps, self.clocks, self.start = [], [], time.monotonic()

    def poll(self):
        energy, now = self.nvml.energy_mj(), time.monotonic()
        if not self.steps or energy != self.steps[-1][1]:
            self.steps.append((now, energy))
        if now >= self.next_clock:
            self.clocks.append(self.nvml.clock_mhz())
            self.next_clock = now + POLL_CLOCK_S

    def clock_mhz(self):
        return sum(self.clocks) / max(1, len(self.clocks)) if self.clocks else math.nan

    def power_w(self):
        """NAN with fewer than two steps. The first reading is no step: it only says what the counter was then."""
        inside = [step for step in self.steps[1:] if step[0] >= self.start + LAG_S]
        if len(inside) < 2:
            return math.nan
        (first, before), (last, after) = inside[0], inside[-1]
        return (after - before) / 1e3 / (last - first)


def block(graph, meter, settle_s, sample_s):
    """Replays a graph without a pause: first to settle, then measured. Returns a dict: ms of one replay, mean clock_mhz
    and power_w."""
    begin = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    begin[0].record()
    graph.replay()
    begin[1].record()
    torch.cuda.synchronize()
    chunk = max(1, math.ceil(CHUNK_S * 1e3 / begin[0].elapsed_time(begin[1])))
    queued, replays, measured, since, at = [], 0, None, 0, time.monotonic()
    while measured is None or time.monotonic() - since < sample_s:
        if measured is None and time.monotonic() - at >= settle_s:
            measured, since, replays = queue(graph, 0), time.monotonic(), 0
            meter.begin()
        queued.append(queue(graph, chunk))
        replays += chunk
        if measured:
            meter.poll()  # also where the driver's own queue is full, so that no chunk is waited for
        while len(queued) > 2:
            wait(queued.pop(0), meter if measured else None)
    end = queue(graph, 0)
    while not end.query():
        meter.poll()
    return dict(ms=measured.elapsed_time(end) / replays, clock_mhz=meter.clock_mhz(), power_w=meter.power_w())


def queue(graph, count):
    for _ in range(count):
        graph.replay()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def wait(event, meter):
    while not event.query():
        if meter:
            meter.poll()
        else:
            time.sleep(0.001)

"""What training takes of the machine: memory and processors."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from time import perf_counter

import psutil

from ingle.tensor.contract import GAUGES, offered
from ingle.tensor.device import backend_of


class Gauges:
    """Reads how much of the machine this process uses.

    `read` gives "process/memory" and "machine/memory" in bytes, "process/cpu" in cores since the
    reading before, "machine/cpu" as the busy share of all cores since then, and for each device
    whose backend can tell "NAME/memory", "NAME/reserved" and "NAME/limit" in bytes: those of this
    process. Where the machine has sensors that the system shows, "machine/temperature" is the
    highest of its processors in degrees Celsius.

    Devices that say more of themselves, by the capability `gauges`, are shown with "NAME/use" (the
    share of time in which they worked of late), "NAME/used" and "NAME/total" (bytes of their
    memory, whoever has them), "NAME/temperature" and "NAME/power" (watts).

    Args:
        devices: their names.

    >>> from ingle.train import Gauges
    >>> found = Gauges(["cpu"]).read()
    >>> found["process/memory"] > 1e6
    True
    """

    def __init__(self, devices: Iterable[str]) -> None:
        self._devices = tuple(devices)
        self._process = psutil.Process()
        self._cpu = self._busy()
        self._at = perf_counter()
        psutil.cpu_percent()

    def _busy(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def read(self) -> dict[str, float]:
        """The figures of this moment, by name."""
        now, busy = perf_counter(), self._busy()
        memory = psutil.virtual_memory()
        found = {
            "process/memory": float(self._process.memory_info().rss),
            "process/cpu": max(0.0, busy - self._cpu) / max(now - self._at, 1e-9),
            "machine/memory": float(memory.total - memory.available),
            "machine/memory total": float(memory.total),
            "machine/cpu": psutil.cpu_percent() / 100,
            "machine/cores": float(cores()),
        }
        self._cpu, self._at = busy, now
        if (hottest := _temperature()) is not None:
            found["machine/temperature"] = hottest
        for name in self._devices:
            found |= _device(name)
        return found


@cache
def cores() -> int:
    """How many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


PROCESSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal")
"""What drivers of Linux call the sensors of processors."""


def _temperature() -> float | None:
    """The highest that sensors of processors show; None where there are none."""
    read = getattr(psutil, "sensors_temperatures", None)  # not on every system
    shown = {} if read is None else read()
    return max(
        (float(one.current) for name in PROCESSORS for one in shown.get(name, ())), default=None
    )


def _device(name: str) -> dict[str, float]:
    """What a device's pool has lent and kept, and what it says of itself; nothing where its backend
    has nothing to ask."""
    backend, found = backend_of(name), dict[str, float]()
    if (memory := offered(backend, "memory")) is not None:
        stats = memory().statistics()
        found = {"memory": float(stats.in_use), "reserved": float(stats.reserved)}
        if stats.limit is not None:
            found["limit"] = float(stats.limit)
    if (gauges := offered(backend, "gauges")) is not None:
        told = gauges()
        found |= {gauge: float(told[gauge]) for gauge in GAUGES if gauge in told}
    return {f"{name}/{gauge}": value for gauge, value in found.items()}

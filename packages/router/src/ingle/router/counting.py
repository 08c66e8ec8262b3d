"""What a router has done: moves between its devices, and operations that ran on another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ingle.tensor.device import Device
from ingle.tensor.locks import renewed
from ingle.tensor.moving import MoveRoad


@dataclass(frozen=True, slots=True)
class MoveCount:
    """How much went from one device to another by one road.

    Attributes:
        source, target: the devices, as the router names them.
        road: `"peer copy"`, `"DLPack"`, `"shared memory"`, `"host"`, or `"reduction"`, where values
            are added on their way.
        times: how many tensors.
        nbytes: of all of them together.

    >>> import ingle.tensor as it
    >>> from ingle.router import Router
    >>> with Router("numpy", "cpu", name="doors") as router:
    ...     moved = it.ones(4, device=router["numpy"]).to_device(router["cpu"])
    ...     [(str(m.source), str(m.target), m.times, m.nbytes) for m in router.report().moves]
    [('doors', 'doors:1', 1, 16)]
    """

    source: Device
    target: Device
    road: MoveRoad
    times: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a router has done so far; `print` shows it as a table.

    Attributes:
        members: the devices with what is behind them.
        moves: by device and road, in the order in which they first occurred.
        fallbacks: by operation, device that lacks it, and device that it ran on: how often.

    >>> from ingle.router import Report, Router
    >>> with Router("numpy", name="doors") as router:
    ...     report = router.report()
    >>> isinstance(report, Report), [str(d) for d in report.members.values()], report.moves
    (True, ['numpy'], ())
    """

    members: Mapping[Device, Device]
    moves: tuple[MoveCount, ...]
    fallbacks: Mapping[tuple[str, Device, Device], int]

    def __str__(self) -> str:
        lines = [f"{where} is {member}" for where, member in self.members.items()]
        lines += [
            f"{m.source} -> {m.target}: {m.times} tensors, {m.nbytes} bytes by {m.road}"
            for m in self.moves
        ]
        lines += [
            f"{name}: {count} times on {there}, since {here} lacks it"
            for (name, here, there), count in self.fallbacks.items()
        ]
        return "\n".join(lines)


class Counts:
    """Counts from any thread."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._times: Counter[tuple[Device, Device, MoveRoad]] = Counter()
        self._bytes: Counter[tuple[Device, Device, MoveRoad]] = Counter()
        self._fallbacks: Counter[tuple[str, Device, Device]] = Counter()

    def move(self, source: Device, target: Device, road: MoveRoad, nbytes: int) -> None:
        """One tensor went from one device to another."""
        with self._lock:
            self._times[source, target, road] += 1
            self._bytes[source, target, road] += nbytes

    def fallback(self, name: str, lacking: Device, running: Device) -> bool:
        """An operation ran on another device; whether for the first time."""
        with self._lock:
            self._fallbacks[name, lacking, running] += 1
            return self._fallbacks[name, lacking, running] == 1

    def report(self, members: Mapping[Device, Device]) -> Report:
        """What was counted until now."""
        with self._lock:
            moves = tuple(
                MoveCount(*key, times, self._bytes[key]) for key, times in self._times.items()
            )
            return Report(dict(members), moves, dict(self._fallbacks))

"""How many cores this process may use.

Two limits hold besides the number of cores: which of them the process may run on (`taskset`, CPU
sets), and the share of their time that its control groups have (`docker run --cpus`, a pod's
limit). Threads beyond that share would be stopped for the rest of each period, in the middle of
work that the others wait for.

Formats: `proc_pid_mountinfo(5)`, `cgroups(7)`; the kernel's documents `cgroup-v2` (`cpu.max`) and
`sched-bwc` (`cpu.cfs_quota_us`, `cpu.cfs_period_us`).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath


def cores() -> int:
    """The cores that this process may keep busy, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    else:
        found = os.cpu_count() or 1
    return max(1, math.ceil(min(found, _own_quota())))


def quota(root: Path = Path("/")) -> float:
    """The share of time that control groups allow, in cores; infinity where they set none.

    Args:
        root: below which `proc/self` is.
    """
    return min([math.inf, *_limits(root)])


@cache
def _own_quota() -> float:
    """What this process was allowed when it first asked: its pool of threads stays as it is, and
    planning asks for each product, which takes longer than to look one up."""
    return quota()


def _limits(root: Path) -> Iterator[float]:
    try:
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return  # no Linux, or nothing to be seen
    for version, mounted, place in _hierarchies(mounts):
        for line in groups:
            number, controllers, group = [*line.split(":", 2), "", ""][:3]
            wanted = number == "0" if version == 2 else "cpu" in controllers.split(",")
            if wanted:
                folder = root / place.lstrip("/")
                yield from _of_groups(folder, _below(group, mounted), version)


def _hierarchies(mounts: list[str]) -> Iterator[tuple[int, str, str]]:
    """Version, the group that is mounted, and where, of hierarchies that limit time."""
    for line in mounts:
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) < 5 or not kind:
            continue
        mounted, place = (_unescaped(fields[3]), _unescaped(fields[4]))
        if kind[0] == "cgroup2":
            yield 2, mounted, place
        elif kind[0] == "cgroup" and "cpu" in kind[-1].split(","):
            yield 1, mounted, place


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _below(group: str, mounted: str) -> PurePosixPath:
    """Where a group is below the mount. In a container it may be named as the host sees it."""
    path = PurePosixPath(group)
    if ".." in path.parts or not path.is_relative_to(mounted):
        return PurePosixPath()
    return path.relative_to(mounted)


def _of_groups(folder: Path, group: PurePosixPath, version: int) -> Iterator[float]:
    """The limits of a group and of all above it: each holds."""
    for path in (group, *group.parents):
        try:
            if version == 2:
                given, period = (folder / path / "cpu.max").read_text().split()
            else:
                given = (folder / path / "cpu.cfs_quota_us").read_text().strip()
                period = (folder / path / "cpu.cfs_period_us").read_text().strip()
        except (OSError, ValueError):
            continue  # the topmost group has no limit, and a container may hide some
        if given.isdigit() and period.isdigit() and int(given) and int(period):
            yield int(given) / int(period)

"""How many threads there are by default: what control groups allow, in both of their versions."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingle_cpu.threads import cores as module
from ingle_cpu.threads.cores import cores, quota

V2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "31 23 0:28 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
)


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def version2(root: Path, group: str, limits: dict[str, str], mounts: str = V2) -> Path:
    written(root, proc__self__mountinfo=mounts, proc__self__cgroup=f"0::{group}\n")
    for name, text in limits.items():
        folder = root / "sys/fs/cgroup" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text(text)
    return root


def version1(root: Path, group: str, limits: dict[str, str], mounted: str = "/") -> Path:
    lines = f"7:cpuset:/\n4:cpu,cpuacct:{group}\n1:name=systemd:/x\n0::/\n"
    mounts = V1.format(root=mounted)
    written(root, proc__self__mountinfo=mounts, proc__self__cgroup=lines)
    for name, text in limits.items():
        folder = root / "sys/fs/cgroup/cpu,cpuacct" / name
        folder.mkdir(parents=True, exist_ok=True)
        given, period = text.split()
        (folder / "cpu.cfs_quota_us").write_text(given + "\n")
        (folder / "cpu.cfs_period_us").write_text(period + "\n")
    return root


@pytest.mark.parametrize(
    ("group", "limits", "expected"),
    [
        ("/", {".": "200000 100000\n"}, 2),
        ("/", {".": "max 100000\n"}, math.inf),
        ("/", {".": "150000 100000"}, 1.5),
        ("/a/b", {"a/b": "max 100000", "a": "300000 100000"}, 3),
        ("/a/b", {"a/b": "100000 100000", "a": "300000 100000"}, 1),
        ("/a/b", {"a/b": "500000 100000", "a": "300000 100000", ".": "max 100000"}, 3),
        # Without a namespace of its own a container sees the host's name of its group.
        ("/docker/0123", {".": "50000 100000"}, 0.5),
        ("/../other", {".": "50000 100000"}, 0.5),
        # What lies beside the mount is no group, whatever files are there.
        ("/../other", {".": "50000 100000", "../other": "10000 100000"}, 0.5),
        ("/", {".": "nonsense"}, math.inf),
        ("/", {".": ""}, math.inf),
        ("/", {".": "100000 0"}, math.inf),
        ("/", {".": "0 100000"}, math.inf),
        ("/", {}, math.inf),
    ],
)
def test_version_2(tmp_path: Path, group: str, limits: dict[str, str], expected: float) -> None:
    assert quota(version2(tmp_path, group, limits)) == expected


@pytest.mark.parametrize(
    ("group", "limits", "mounted", "expected"),
    [
        ("/", {".": "-1 100000"}, "/", math.inf),
        ("/", {".": "400000 100000"}, "/", 4),
        # Another hierarchy's files do not count.
        ("/", {".": "-1 100000", "../cpuset": "10000 100000"}, "/", math.inf),
        ("/docker/0123", {".": "400000 100000"}, "/docker/0123", 4),
        ("/a/b", {"a": "100000 50000", "a/b": "-1 100000"}, "/", 2),
        ("/kubepods/pod", {".": "25000 100000"}, "/elsewhere", 0.25),
    ],
)
def test_version_1(
    tmp_path: Path, group: str, limits: dict[str, str], mounted: str, expected: float
) -> None:
    assert quota(version1(tmp_path, group, limits, mounted)) == expected


def test_a_mount_with_blanks_in_its_name(tmp_path: Path) -> None:
    place = "/sys/fs/cgroup/with\\040blank"
    version2(tmp_path, "/", {"with blank": "200000 100000"}, V2.replace("/sys/fs/cgroup", place))
    assert quota(tmp_path) == 2


def test_without_control_groups(tmp_path: Path) -> None:
    assert quota(tmp_path) == math.inf
    written(tmp_path, proc__self__mountinfo="x\n\n1 2 3 - \n", proc__self__cgroup="\n:\nx")
    assert quota(tmp_path) == math.inf


@pytest.mark.parametrize(("given", "expected"), [(0.1, 1), (1.0, 1), (1.5, 2), (2.0, 2)])
def test_part_of_a_core_counts_as_one(
    monkeypatch: pytest.MonkeyPatch, given: float, expected: int
) -> None:
    monkeypatch.setattr(module, "_own_quota", lambda: given)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert cores() == expected


def test_cores_that_the_process_may_not_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_own_quota", lambda: 8.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert cores() == 1


def threads(**environment: str) -> subprocess.CompletedProcess[str]:
    code = "from ingle_cpu.threads.pool import thread_count; print(thread_count())"
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_variable_is_unset(text: str) -> None:
    assert int(threads(INGLE_NUM_THREADS=text).stdout) == cores()


@pytest.mark.slow
def test_blanks_around_a_number() -> None:
    assert threads(INGLE_NUM_THREADS=" 3 ").stdout == "3\n"


def test_files_are_read_once(monkeypatch):
    """Planning asks for each matrix product, and the pool does not change its size."""
    module._own_quota.cache_clear()
    asked = []
    monkeypatch.setattr(module, "quota", lambda: asked.append(1) or 1.0)
    assert cores() == cores() == 1
    assert len(asked) == 1
    module._own_quota.cache_clear()

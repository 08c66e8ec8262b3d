"""Copies between GPUs and sums over them: what is put into which stream, in which order.

The devices are stubs whose memory is the host's; a stub of NCCL adds in it.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ingle.fusion.device import PendingChecks
from ingle.fusion.device.kernel_backend import MemoryHandle
from ingle.tensor.contract import Aval, Handle
from ingle.tensor.device import Device
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.errors import BackendError, OutOfRangeError
from ingle.tensor.locks import renewed
from ingle_cuda import peers


class Stub:
    """A device with a stream that notes what it gets."""

    checks: PendingChecks | None = None

    def __init__(self, number: int, log: list[Any]) -> None:
        self.device = Device("cuda", number)
        self.limits = SimpleNamespace(number=number)
        self.lock = renewed(self, "lock")
        self.log = log
        self.stream = SimpleNamespace(
            ptr=number, wait_event=lambda event: log.append((number, "waits for", event.of))
        )

    def enter(self) -> None:
        self.log.append((self.limits.number, "enters"))

    def in_order(self, handle: Handle) -> Handle:
        return handle

    def empty(self, aval: Aval) -> MemoryHandle:
        return self.upload(np.zeros(aval.shape, aval.dtype.dtype))

    def upload(self, array: np.ndarray) -> MemoryHandle:
        aval = Aval(array.shape, from_numpy_dtype(array.dtype))
        address = array.__array_interface__["data"][0]
        return MemoryHandle(self, aval, array, address)  # type: ignore[arg-type]


class Runtime:
    """Of CuPy: GPUs 0 and 1 have a road between them, 2 has none."""

    class CUDARuntimeError(RuntimeError):
        pass

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def deviceCanAccessPeer(self, to: int, of: int) -> bool:  # noqa: N802 - CuPy's names
        return 2 not in (to, of)

    def deviceEnablePeerAccess(self, of: int) -> None:  # noqa: N802
        self.log.append(("opens the road from", of))
        if of == 1:
            raise self.CUDARuntimeError("cudaErrorPeerAccessAlreadyEnabled: it is")

    def memcpyPeerAsync(  # noqa: N802
        self, to: int, there: int, of: int, here: int, nbytes: int, stream: int
    ) -> None:
        ctypes.memmove(to, of, nbytes)
        self.log.append((stream, "copies", here, "->", there, nbytes))


class Nccl:
    """Adds what the ranks of a group give."""

    NCCL_SUM, NCCL_FLOAT32, NCCL_INT32, NCCL_BFLOAT16 = 0, "float32", "int32", "bfloat16"

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.NcclCommunicator = SimpleNamespace(initAll=self._made)
        self.calls: dict[int, list[Any]] = {}

    def _made(self, numbers: list[int]) -> list[Any]:
        self.log.append(("communicators", *numbers))

        def reduce(rank: int) -> Any:
            return lambda *given: self.calls.setdefault(rank, []).append(given)

        return [SimpleNamespace(reduce=reduce(rank)) for rank in range(len(numbers))]

    def groupStart(self) -> None:  # noqa: N802 - CuPy's names
        self.calls.clear()

    def groupEnd(self) -> None:  # noqa: N802
        for calls in zip(*self.calls.values(), strict=True):
            dtype = np.dtype(getattr(ml_dtypes, calls[0][3], calls[0][3]))
            views = [
                np.frombuffer((ctypes.c_char * (c[2] * dtype.itemsize)).from_address(c[0]), dtype)
                for c in calls
            ]
            total = sum(views[1:], views[0])
            assert all(c[1:6] == calls[0][1:6] for c in calls), "all ranks say the same"
            ctypes.memmove(calls[0][1], np.ascontiguousarray(total).ctypes.data, total.nbytes)
            self.log.append(("sum", dtype.name, [c[6] for c in calls]))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What happened, in order; CuPy and NCCL are stubs that write it."""
    told: list[Any] = []

    class Event:
        def __init__(self, block: bool, disable_timing: bool) -> None:
            self.of = -1

        def record(self, stream: Any) -> None:
            self.of = stream.ptr

    runtime = Runtime(told)
    monkeypatch.setattr(
        peers, "cupy", lambda: SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Event=Event))
    )
    library = Nccl(told)
    monkeypatch.setattr(peers, "nccl", lambda: library)
    yield told
    peers._enable_access.cache_clear()
    peers._communicators.cache_clear()


def test_a_copy_waits_for_its_source_and_the_source_for_the_copy(log: Any) -> None:
    one, two = Stub(0, log), Stub(1, log)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = peers.copied(one.upload(values), two)  # type: ignore[arg-type]
    assert made.backend is two
    assert (made.shape, made.dtype.name) == ((2, 3), "float32")
    assert np.array_equal(made.memory, values)  # type: ignore[attr-defined]
    steps = [step for step in log if "enters" not in step]
    assert steps == [
        ("opens the road from", 0), (1, "waits for", 0), (1, "copies", 0, "->", 1, 24),
        (0, "waits for", 1),
    ]  # fmt: skip


def test_roads_are_opened_once_and_where_there_are_any(log: Any) -> None:
    devices = [Stub(n, log) for n in range(3)]
    for source, target in ((0, 1), (0, 1), (1, 0), (0, 2), (2, 1)):
        made = peers.copied(devices[source].upload(np.ones(2)), devices[target])  # type: ignore[arg-type]
        assert made.memory.tolist() == [1.0, 1.0]  # type: ignore[attr-defined]
    assert [step for step in log if step[0] == "opens the road from"] == [
        ("opens the road from", 0), ("opens the road from", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("sums", [False, True])
def test_what_comes_from_another_gpu_brings_its_checks_along(log: Any, sums: bool) -> None:
    one, two = Stub(0, log), Stub(1, log)
    for device in (one, two):
        device.checks = PendingChecks(lambda flags: lambda: flags)
    assert one.checks is not None
    assert two.checks is not None
    two.checks.begin([True], ["take: out of range"], ())
    values = [device.upload(np.ones(2, np.float32)) for device in (one, two)]
    if sums:
        (made,) = peers.summed([values]) or ()
    else:
        made = peers.copied(values[1], one)  # type: ignore[arg-type]
    with pytest.raises(OutOfRangeError, match="take"):
        one.checks.settle(0)
    with pytest.raises(OutOfRangeError, match="take"):
        one.checks.ensure(made)
    one.checks.ensure(values[0])


def test_nothing_is_copied_of_an_empty_value(log: Any) -> None:
    made = peers.copied(Stub(0, log).upload(np.ones((0, 4))), Stub(1, log))  # type: ignore[arg-type]
    assert made.shape == (0, 4)
    assert log == []


@pytest.mark.parametrize("count", [2, 3])
def test_sums_of_all_groups_are_one_call_of_the_library(log: Any, count: int) -> None:
    devices = [Stub(n, log) for n in range(count)]
    rng = np.random.default_rng(0)
    drawn = [
        [rng.normal(size=(3, 2)).astype(np.float32) for _ in devices],
        [rng.integers(0, 9, 5).astype(np.int32) for _ in devices],
        [np.zeros((0, 3), np.float32) for _ in devices],
        [rng.integers(0, 9, ()).astype(ml_dtypes.bfloat16) for _ in devices],
    ]
    groups = [[d.upload(a) for d, a in zip(devices, arrays, strict=True)] for arrays in drawn]
    for _ in range(2):
        sums = peers.summed(groups)
        assert sums is not None
        for total, arrays in zip(sums, drawn, strict=True):
            assert total.backend is devices[0]
            assert np.array_equal(total.memory, sum(arrays[1:], arrays[0]))  # type: ignore[attr-defined]
    assert log.count(("communicators", *range(count))) == 1
    streams = list(range(count))
    assert [s for s in log if s[0] == "sum"] == 2 * [
        ("sum", "float32", streams), ("sum", "int32", streams), ("sum", "bfloat16", streams),
    ]  # fmt: skip


def test_what_the_library_cannot_add_is_left_to_others(
    log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, again = Stub(0, log), Stub(1, log), Stub(0, log)
    x = np.ones(2, np.float32)
    assert peers.summed([[one.upload(x)]]) is None  # there is nothing to add
    assert peers.summed([[one.upload(x), again.upload(x)]]) is None  # one GPU twice
    assert peers.summed([[d.upload(x + 1j) for d in (one, two)]]) is None
    mixed = [[one.upload(x), two.upload(x)], [two.upload(x), one.upload(x)]]
    assert peers.summed(mixed) is None
    monkeypatch.setattr(peers, "nccl", lambda: None)
    assert peers.summed(mixed[:1]) is None


def test_what_fails_names_the_device(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> None:
        raise RuntimeError("cudaErrorInvalidValue: no")

    monkeypatch.setattr(Runtime, "memcpyPeerAsync", broken)
    with pytest.raises(BackendError, match="cuda:1: the driver failed while a copy came from cuda"):
        peers.copied(Stub(0, log).upload(np.ones(2)), Stub(1, log))  # type: ignore[arg-type]

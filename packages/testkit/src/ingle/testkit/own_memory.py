"""What devices with memory of their own need: uploads, views, waiting, several of them, faults.

Each check is one of `BackendContract`, run where a class declares that its device can do it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor import Device, Tensor, asarray
from ingle.tensor.device import backend_of
from ingle.tensor.errors import IngleError, LostDeviceError, OutOfMemoryError, OutOfRangeError

from .bits import same_bits


def check_uploads(where: str) -> None:
    """Arrays that change or go right after the upload, large ones, and odd layouts."""
    rng = np.random.default_rng(0)
    for shape in ((1 << 20,), (1021, 513), (3, 1), (0, 4)):
        base = rng.standard_normal(shape).astype(np.float32)
        for host in (base.copy(), np.asfortranarray(base), base[::-1], base[..., ::2]):
            expected = host.copy()
            x = asarray(host, device=where)
            y = x + 1.0
            if host.flags.writeable:
                host[...] = 0
            del host
            assert same_bits(x, expected), "an upload saw a later write"
            assert np.array_equal(y.numpy(), expected + np.float32(1))


def check_views(where: str) -> None:
    """Views with offsets into one buffer, alone, in operations and after their base is gone."""
    host = np.arange(7 * 9, dtype=np.float32).reshape(7, 9)
    base = asarray(host, device=where)
    views: list[tuple[Tensor, np.ndarray]] = [
        (base[3:], host[3:]), (base[2:6, 3:8], host[2:6, 3:8]),
        (base[::-2, 1::3], host[::-2, 1::3]), (base[5], host[5]), (base.mT[4:], host.T[4:]),
        (base[1:][1:][1:, 2:], host[3:, 2:]),
    ]  # fmt: skip
    del base
    for view, expected in views:
        assert np.array_equal(view.numpy(), expected)
        assert np.array_equal((view * 2.0 + view).numpy(), expected * 2 + expected)
        assert it.sum(view).item() == expected.sum()
        square = asarray(np.eye(expected.shape[-1], dtype=np.float32), device=where)
        assert np.array_equal((view @ square).numpy(), expected)


def check_streams(where: str) -> None:
    """Work of several threads on shared values, without waiting in between."""
    shared = asarray(np.full((257, 33), 1.0, np.float32), device=where)
    found: list[float] = [0.0] * 4

    def work(seed: int) -> None:
        x = shared * float(seed + 1)
        for _ in range(50):
            x = x + shared
        found[seed] = it.max(x).item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [51.0, 52.0, 53.0, 54.0]
    backend_of(where).synchronize()


def check_late_errors(where: str) -> None:
    """An error that a device finds late comes to whoever reads, once, and to nobody else."""
    x = asarray(np.arange(4, dtype=np.float32), device=where)
    good = x * 2.0
    bad: list[Tensor] = []
    with contextlib.suppress(OutOfRangeError):  # from one that does not run ahead, at once
        bad.append(it.take(x, asarray([9], device=where)) + 1.0)
    also = x + 1.0
    for y in bad:
        with pytest.raises(OutOfRangeError):
            y.numpy()
    assert good.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert also.tolist() == [1.0, 2.0, 3.0, 4.0]
    backend_of(where).synchronize()
    assert (x - 1.0).tolist() == [-1.0, 0.0, 1.0, 2.0]
    _check_late_errors_of_state(x)


def _check_late_errors_of_state(x: Tensor) -> None:
    """A group of writes, one of which fails late, leaves all cells as they were."""
    count, state = it.Cell(x + 0.0), it.Cell(x + 1.0)
    before = count.tolist(), state.tolist()
    with contextlib.suppress(OutOfRangeError):  # at once, at the end of the group, or when read
        with it.transaction():
            count.value = count + 1.0
            state.value = it.take(x, asarray([0, 1, 2, 9], device=x.device)) * 2.0
        state.numpy()
    try:
        after = count.tolist(), state.tolist()
    except OutOfRangeError as error:
        raise AssertionError("a write that failed late took what the cell held before") from error
    assert after == before, f"cells hold {after} after a write that failed late, not {before}"


def check_several(devices: Sequence[str]) -> None:
    """Devices keep values apart, move them, and refuse to mix them."""
    values = np.arange(300, dtype=np.float32)
    tensors = [asarray(values + i, device=d) for i, d in enumerate(devices)]
    for i, (x, d) in enumerate(zip(tensors, devices, strict=True)):
        assert (x * 2.0).device == Device.parse(d)
        for other in devices:
            moved = (x * 2.0).to_device(other)
            assert moved.device == Device.parse(other)
            assert np.array_equal(moved.numpy(), (values + i) * 2)
    with pytest.raises(IngleError, match="different devices"):
        tensors[0] + tensors[1]
    tracked = tensors[0].require_grad()
    found = it.sum(tracked.to_device(devices[1]) ** 2).backward()[tracked]
    assert found.device == tensors[0].device
    assert np.array_equal(found.numpy(), values * 2)


def check_out_of_memory(where: str, limit: int) -> None:
    """More than the device has is an error of its own kind, and the device goes on."""
    x = asarray(np.ones(1000, np.float32), device=where)
    with pytest.raises(OutOfMemoryError):
        it.zeros((limit // 4 + 1,), dtype="float32", device=where).numpy()
    assert it.sum(x + 1.0).item() == 2000.0


def check_loss(where: str, lose: Callable[[], None]) -> None:
    """A device that is gone says so, in every use of it, and nothing hangs."""
    x = asarray(np.ones(10, np.float32), device=where)
    assert it.sum(x).item() == 10.0
    lose()
    uses: list[Callable[[], object]] = [
        lambda: (x + 1.0).numpy(), lambda: asarray(np.ones(2, np.float32), device=where).numpy(),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(LostDeviceError):
            use()

"""What holds before any operation runs: protocol, transfers, selection, threads, weak scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ingle.tensor import Device, asarray, bool_, default_device, device, zeros
from ingle.tensor.argument_checks import nearest
from ingle.tensor.contract import (
    CAPABILITIES,
    CONTRACT_VERSION,
    GAUGES,
    Backend,
    Handle,
    capability,
    offered,
)
from ingle.tensor.device import backend_of
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.errors import ArgumentError, DTypeError, IngleError
from ingle.tensor.operation import OPERATIONS
from ingle.tensor.ops.creation.conversion import staged
from ingle.tensor.plugins import describe
from ingle.tensor.sample import Draw

from .bits import same_bits
from .cases import Subject, operations


def check_protocol(where: str) -> None:
    """The description and the object keep the contract."""
    name = Device.parse(where).name
    description = describe(name)
    assert description.contract == CONTRACT_VERSION
    assert description.count() > Device.parse(where).index
    assert description.summary, "a backend says in one line what it is, for `ingle info`"
    backend = backend_of(where)
    assert isinstance(backend, Backend), "a method of ingle.tensor.contract.Backend is missing"
    assert backend is backend_of(where), "a device has one backend"
    assert backend.level == 0, "hardware is level 0"
    assert backend.device == Device.parse(where)
    assert backend.name
    for name in CAPABILITIES:
        capability(backend, name)
    if (gauges := offered(backend, "gauges")) is not None:
        told = gauges()
        assert set(told) <= set(GAUGES), f"there are no other gauges than {', '.join(GAUGES)}"
        assert all(map(np.isfinite, told.values())), "what a device cannot tell it leaves out"
    check_kernels(getattr(backend, "kernels", {}))
    handle = backend.upload(np.zeros((2, 3), np.float32))
    assert isinstance(handle, Handle)
    assert handle.backend is backend
    assert (handle.shape, handle.dtype.name) == ((2, 3), "float32")
    assert handle.owners is None or handle.owners >= 1
    backend.synchronize()


def check_kernels(kernels: Mapping[str, object]) -> None:
    """Each key of a table of kernels is called by somebody: nothing else would tell of a slip.

    Operations of packages that were not imported are not known, so that only what nearly has a
    known name is refused.
    """
    operations()
    known = {*OPERATIONS, *(o.traits.family for o in OPERATIONS.values() if o.traits.family)}
    for key, kernel in kernels.items():
        assert callable(kernel), f"kernels[{key!r}] is {kernel!r}, a function was expected"
        near = nearest(key, known, cutoff=0.8)
        assert key in known or not near, (
            f"kernels[{key!r}] names no operation and no family; did you mean {near[0]!r}? If it "
            "is an operation of another package, import that one where the table is made"
        )


def check_round_trip(where: str, dtype: str) -> None:
    """Arrays of every layout, empty and 0-d ones included, survive the trip and stay apart."""
    kind = as_dtype(dtype)
    draw = Draw(3, kind)
    base = draw.array((3, 5, 2))
    for array in (
        base, base.transpose(2, 0, 1), base[::-1, ::2], base[:0], draw.array(()), draw.array((0,)),
        np.broadcast_to(base[0, 0], (8, 2)), draw.array((33,)), base.copy("F"),
    ):  # fmt: skip
        x = asarray(array, device=where)
        assert (x.shape, x.dtype, x.device) == (array.shape, kind, Device.parse(where))
        back = x.numpy()
        assert back.dtype == array.dtype
        assert same_bits(back, array)
    for upload in (asarray, staged):
        host = base.copy()
        x = upload(host, device=where)
        host[...] = 0
        assert same_bits(x, base), "a tensor changed with the array it came from"
    if capability(backend_of(where), "adopt"):
        assert same_bits(asarray(base, device=where, copy=False), base)
    else:
        with pytest.raises(ArgumentError, match="copies what it imports"):
            asarray(base, device=where, copy=False)
    back = x.numpy()
    if back.flags.writeable:
        back[...] = 0
        assert same_bits(x, base), "a tensor changed with an array read from it"


def check_selection(where: str) -> None:
    """The device of new tensors, and errors for devices that there are not."""
    with device(where):
        assert default_device() == Device.parse(where)
        assert zeros(2).device == Device.parse(where)
    name = Device.parse(where).name
    beyond = describe(name).count()
    with pytest.raises(IngleError, match=f"{name}:{beyond + 7}"):
        zeros(2, device=f"{name}:{beyond + 7}")


def check_threads(where: str) -> None:
    """Operations in several threads at once give what they give in one."""
    x = asarray(Draw(5).array((33, 17)), device=where)

    def work(seed: int) -> bytes:
        y = x * float(seed) + x
        for _ in range(20):
            y = (y @ x.mT @ x) * 0.01
        return y.sum(axis=0).numpy().tobytes()

    alone = [work(i) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == alone


def check_weak_scalars(operation: Subject, where: str, dtypes: Sequence[str]) -> None:
    """A number as either operand gives the dtype that a tensor of the same dtype gives."""
    assert operation.public is not None
    for dtype in dtypes:
        kind = as_dtype(dtype)
        if kind is bool_:
            continue
        x = asarray(Draw(1, kind).array((3,), low=1, high=4), device=where)
        number = complex(1, 1) if kind.is_complex else 1.5 if kind.is_inexact else 2
        try:
            expected = operation.public(x, x).dtype
        except DTypeError:
            continue
        for got in (operation.public(x, number), operation.public(number, x)):
            assert got.dtype is expected, f"{dtype} with {number}: {got.dtype}, expected {expected}"
            assert got.device == Device.parse(where)

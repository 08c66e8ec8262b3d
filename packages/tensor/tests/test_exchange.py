"""Values from and to other libraries: NumPy, PyTorch, JAX, the buffer protocol, a fake CUDA array.

What is shared is checked by writing on one side and reading on the other, and by addresses.
"""

from __future__ import annotations

import array
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, OperandError

DTYPES = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda a: a,
    "permuted": lambda a: a.T,
    "stepped": lambda a: a[:, ::2],
    "one of a stack": lambda a: a[1],
    "0-d": lambda a: a[0, 0],
    "empty": lambda a: a[:0],
}


def numbers(dtype: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray:
    to = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    return np.arange(np.prod(shape)).reshape(shape).astype(to)


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def address(x: Any) -> int:
    return int(x.__array_interface__["data"][0])


@pytest.fixture(autouse=True)
def on_numpy() -> Iterator[None]:
    """Addresses and strides are those of the backend whose memory is NumPy's."""
    with it.device("numpy"):
        yield


class Old:
    """A producer of DLPack before 1.0: it takes no keyword but `stream`."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.values.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Cuda:
    """An array on a GPU, as CuPy shows it: it refuses what is not asked for its own device."""

    def __init__(self, values: np.ndarray, copies: bool = True) -> None:
        self.values = values
        self.copies = copies

    def __dlpack__(self, **asked: Any) -> Any:
        if not self.copies and "dl_device" in asked:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'dl_device'")
        if asked.get("dl_device") != (1, 0):
            raise BufferError("a capsule of device memory is of no use here")
        if asked.get("copy") is False:
            raise BufferError("device to host without a copy")
        return self.values.__dlpack__(max_version=asked["max_version"])

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 1)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")


# NumPy.


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_both_ways(dtype: str, layout: str) -> None:
    values = LAYOUTS[layout](numbers(dtype))
    values = np.asarray(values)
    for make in (it.asarray, it.from_dlpack) if values.dtype.isbuiltin == 1 else (it.asarray,):
        for copy in (None, True):
            x = make(values, copy=copy)
            assert x.dtype.name == dtype
            assert x.shape == values.shape
            assert bits(x.numpy()) == bits(values)
            assert not np.shares_memory(x.numpy(), values)
        shared = make(values, copy=False)
        assert shared.numpy().strides == values.strides or not values.size
        assert address(shared.numpy()) == address(values) or not values.size
        assert bits(shared.numpy()) == bits(values)


def test_negative_strides_are_read_in_place() -> None:
    source = np.arange(6.0).reshape(2, 3)
    values = source[::-1, ::-1]
    x = it.asarray(values, copy=False)
    source[1, 2] = 50.0
    assert x[0, 0].item() == 50.0
    assert it.sum(x, axis=0).tolist() == values.sum(0).tolist()
    assert it.asarray(values).tolist() == values.tolist()


def test_what_goes_out_to_numpy() -> None:
    x = it.reshape(it.arange(6.0), (2, 3))
    view = np.asarray(x)
    assert address(view) == address(x.numpy())
    assert not view.flags.writeable
    for own in (np.array(x), np.asarray(x, copy=True), x.__array__(copy=True)):
        assert own.flags.writeable
        own += 1.0
    assert np.asarray(x, dtype="float64").dtype == np.float64
    assert np.asarray(x, copy=False) is not None
    with pytest.raises(ValueError, match=r"copy=False, but float32 on .* float64"):
        np.asarray(x, dtype="float64", copy=False)
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_views_of_tensors_keep_their_strides() -> None:
    x = it.reshape(it.arange(12.0), (3, 4))
    for view, strides in ((x.T, (4, 16)), (x[:, ::2], (16, 8)), (x[::-1], (-16, 4))):
        assert np.asarray(view).strides == strides
        assert np.shares_memory(np.asarray(view), np.asarray(x))


def test_byte_order_and_read_only() -> None:
    swapped = np.arange(3, dtype=">f4")
    assert it.asarray(swapped).tolist() == [0.0, 1.0, 2.0]
    assert it.asarray(swapped).numpy().dtype.isnative
    with pytest.raises(ArgumentError, match="copy=False, but >f4 has to be cast to float32"):
        it.asarray(swapped, copy=False)
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    for make in (it.asarray, it.from_dlpack):
        x = make(fixed, copy=False)
        assert address(x.numpy()) == address(fixed)
        assert make(fixed).tolist() == [0.0, 1.0, 2.0]
        with pytest.raises(BufferError, match=r"before 1\.0"):
            x.__dlpack__(copy=False)
        assert np.from_dlpack(x, copy=False).tolist() == [0.0, 1.0, 2.0]


def test_imported_memory_is_never_written() -> None:
    """In-place operators give the name new memory, however large and however often."""
    for size in (4, 1 << 18):
        values = np.zeros(size, np.float32)
        for x in (it.asarray(values, copy=False), it.from_dlpack(values, copy=False)):
            shown = address(x.numpy())
            for _ in range(3):
                x += 1.0
                x[0] = 9.0
                x *= 2.0
            assert address(x.numpy()) != shown
            assert not values.any()
        inside = it.asarray(values, copy=False)[1:]
        inside += 1.0
        assert not values.any()


def test_exported_memory_is_not_written_while_it_is_held() -> None:
    x = it.zeros(1 << 18)
    x += 1.0  # memory of its own, that may be written in place
    held = [
        np.asarray(x),
        np.from_dlpack(x, copy=False),
        np.asarray(x[:5]),
        x.numpy()[3:],
    ]
    x += 1.0
    x[4] = 7.0
    assert all((np.asarray(h) == 1.0).all() for h in held)
    assert x[0].item() == 2.0


def test_who_made_the_memory_may_go() -> None:
    def shared(make: Callable[..., Any]) -> tuple[Any, Any]:
        values = np.arange(1000.0)
        return make(values, copy=False), weakref.ref(values)

    for make in (it.asarray, it.from_dlpack):
        x, _ = shared(make)
        gc.collect()
        assert it.sum(x).item() == 499500.0
    x, source = shared(it.asarray)
    assert source() is not None
    del x
    gc.collect()
    assert source() is None
    out = np.from_dlpack(it.arange(1000.0), copy=False)
    gc.collect()
    assert out.sum() == 499500.0


def test_nobody_waits_for_numpys_masked_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy loads them when they are first asked for, and not twice at once: a handler of signals
    that came meanwhile and made a tensor, too, ended in a `RecursionError`."""
    monkeypatch.delattr(np, "ma", raising=False)
    monkeypatch.setitem(sys.modules, "numpy.ma", ModuleType("numpy.ma"))
    assert it.asarray(np.ones(2)).tolist() == [1.0, 1.0]
    assert "ma" not in vars(np)


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for copy in (None, False):
        with pytest.raises(OperandError, match=r"masked.*filled"):
            it.asarray(masked, copy=copy)


def test_the_buffer_protocol() -> None:
    line = array.array("d", [1.0, 2.0])
    assert it.asarray(line).tolist() == [1.0, 2.0]
    for shown in (line, memoryview(line)):
        x = it.asarray(shown, copy=False)
        line[0] = 5.0
        assert x[0].item() == 5.0
        line[0] = 1.0
    with pytest.raises(ArgumentError, match="this list has no memory to share"):
        it.asarray([1.0], copy=False)


# DLPack.


@pytest.mark.parametrize("version", [None, (1, 0), (1, 3)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_capsules_of_every_dtype(dtype: str, version: tuple[int, int] | None) -> None:
    class Relay:
        """Hands on what a tensor exports for some version."""

        def __init__(self, x: Any, copy: bool | None) -> None:
            self.x, self.copy = x, copy

        def __dlpack__(self, **_: Any) -> Any:
            return self.x.__dlpack__(max_version=version, copy=self.copy)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    x = it.asarray(numbers(dtype))
    for copy in (None, True, False):
        y = it.from_dlpack(Relay(x, copy), copy=False)
        assert y.dtype is x.dtype
        assert bits(y.numpy()) == bits(x.numpy())
        assert (address(y.numpy()) == address(x.numpy())) is (copy is False)
    assert it.from_dlpack(Relay(x, None)).dtype is x.dtype


def test_copies_belong_to_the_consumer() -> None:
    x = it.arange(3)
    own = np.from_dlpack(x)
    own[0] = 9
    assert x.tolist() == [0, 1, 2]
    assert not np.from_dlpack(x, copy=False).flags.writeable


def test_old_producers() -> None:
    values = np.arange(3.0)
    assert it.from_dlpack(Old(values)).tolist() == [0.0, 1.0, 2.0]
    assert address(it.from_dlpack(Old(values), copy=False).numpy()) == address(values)
    assert it.asarray(Old(values)).tolist() == [0.0, 1.0, 2.0]


def test_what_capsules_cannot_say() -> None:
    x = it.arange(3)
    with pytest.raises(BufferError, match="CUDA device 0, but numpy exports on the host"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="backwards"):
        x[::-1].__dlpack__(copy=False)
    assert np.from_dlpack(x[::-1]).tolist() == [2, 1, 0]
    with pytest.raises(BufferError, match="cannot export int4"):
        it.asarray(numbers("int8"), dtype="int4").__dlpack__()
    assert x.__dlpack_device__() == (1, 0)


def test_memory_of_another_device() -> None:
    """CuPy cannot run here: what it shows is imitated."""
    values = np.arange(3.0)
    for make in (it.asarray, it.from_dlpack):
        with pytest.raises(OperandError, match=r"Cuda is on CUDA device 1.*device='numpy'"):
            make(Cuda(values))
        assert make(Cuda(values), device="numpy").tolist() == [0.0, 1.0, 2.0]
        with pytest.raises((OperandError, ArgumentError), match=r"cannot read this .*Cuda"):
            make(Cuda(values), device="numpy", copy=False)
        with pytest.raises(OperandError, match="CUDA device 1, and it does not know how"):
            make(Cuda(values, copies=False), device="numpy")


def test_tensors_go_through_dlpack_as_they_are() -> None:
    x = it.ones(2, dtype=it.bfloat16)
    for copy in (None, True, False):
        y = it.from_dlpack(x, copy=copy, device=x.device)
        assert y is not x
        assert y.dtype is it.bfloat16
        y += 1
        assert x.tolist() == [1, 1]
    assert it.from_dlpack(it.ones(2).require_grad()).backend.level == 0


# PyTorch.

TORCH = [d for d in DTYPES if d not in ("uint16", "uint32", "uint64")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TORCH)
def test_pytorch_both_ways(dtype: str, layout: str) -> None:
    torch = pytest.importorskip("torch")
    whole = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    theirs = LAYOUTS[layout](whole)
    raw = lambda t: t.contiguous().reshape(-1).view(torch.uint8)  # noqa: E731
    for make in (it.asarray, it.from_dlpack):
        ours = make(theirs)
        assert ours.dtype.name == dtype
        assert ours.shape == tuple(theirs.shape)
        shared = make(theirs, copy=False)
        if theirs.numel():
            assert address(ours.numpy()) != theirs.data_ptr()
            assert address(shared.numpy()) == theirs.data_ptr()
    for back in (torch.from_dlpack(ours), torch.from_dlpack(ours, copy=True)):
        assert back.dtype is theirs.dtype
        assert torch.equal(raw(back), raw(theirs))
        back.fill_(0)
    assert torch.equal(raw(torch.from_dlpack(ours)), raw(theirs))
    held = torch.from_dlpack(ours, copy=False)
    assert held.data_ptr() == address(ours.numpy()) or not theirs.numel()
    assert torch.equal(raw(held), raw(theirs))


def test_pytorch_writes_and_lifetimes() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.zeros(1 << 17)
    x = it.from_dlpack(theirs, copy=False)
    theirs[0] = 5.0
    assert x[0].item() == 5.0
    x += 1.0
    assert theirs[1].item() == 0.0
    x = it.from_dlpack(torch.arange(1000, dtype=torch.bfloat16).clone(), copy=False)
    gc.collect()
    assert x[3].item() == 3.0
    y = it.zeros(1 << 17)
    y += 1.0
    held = torch.from_dlpack(y, copy=False)
    y += 1.0
    assert held[0].item() == 1.0
    del y
    gc.collect()
    assert held.sum().item() == 1 << 17
    with pytest.raises(BufferError, match="backwards"):
        torch.from_dlpack(it.arange(3)[::-1], copy=False)
    assert torch.from_dlpack(it.arange(3)[::-1]).tolist() == [2, 1, 0]


def test_what_pytorch_cannot_export_says_so() -> None:
    torch = pytest.importorskip("torch")
    for make in (it.asarray, it.from_dlpack):
        with pytest.raises(OperandError, match=r"requires? grad.*Detach it"):
            make(torch.ones(2, requires_grad=True))
        with pytest.raises(OperandError, match="conjugate bit"):
            make(torch.ones(2, dtype=torch.complex64).conj())
        with pytest.raises(OperandError, match=r"this torch\.Tensor"):
            make(torch.ones(2, 2).to_sparse())


# JAX.


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float16", "bfloat16", "float32"])
def test_jax_both_ways(dtype: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    theirs = jnp.arange(6).reshape(2, 3).astype(dtype)
    for make in (it.asarray, it.from_dlpack):
        for copy in (None, False):
            ours = make(theirs, copy=copy)
            assert ours.dtype.name == dtype
            assert bits(ours.numpy()) == bits(theirs)
    assert address(it.from_dlpack(theirs, copy=False).numpy()) == theirs.unsafe_buffer_pointer()
    for back in (jnp.from_dlpack(ours), jnp.asarray(ours.numpy()), jnp.from_dlpack(ours.T).T):
        assert back.dtype == theirs.dtype
        assert bits(back) == bits(theirs)

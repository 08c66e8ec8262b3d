"""Writing in place never shows: every other holder of the memory keeps its values."""

from __future__ import annotations

import copy
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import checkpoint, grad, no_grad, vmap
from ingle.fusion.record.log import LazyHandle
from ingle.tensor.errors import DTypeError, OutOfRangeError, ShapeError


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where tensors are made: on numpy, which writes in place whatever it can."""
    with it.device(getattr(request, "param", "numpy")):
        yield


BOTH = pytest.mark.parametrize("device", ["numpy", "cpu"], indirect=True)


SHAPE = (256, 256)
SIZE = 256 * 256


def large(dtype: str = "float32") -> it.Tensor:
    """A tensor that is worth writing in place."""
    return it.reshape(it.arange(SIZE, dtype=dtype), SHAPE)


def place(x: it.Tensor) -> int:
    """Where the values of a tensor lie."""
    handle = x._handle
    below = handle.computed() if isinstance(handle, LazyHandle) else handle
    return int(below.array.__array_interface__["data"][0])  # type: ignore[attr-defined]


def owned(dtype: str = "float32") -> it.Tensor:
    """A tensor that has memory of its own, since something was written to it."""
    x = large(dtype)
    x[0, 0] = 0
    assert x._handle.owners == 1
    return x


WRITES: dict[str, Callable[[it.Tensor], Any]] = {
    "number": lambda x: x.__setitem__((1, 2), 7),
    "row": lambda x: x.__setitem__(3, it.ones(256)),
    "steps": lambda x: x.__setitem__((slice(None, None, 2), slice(-1, 9, -3)), 1.5),
    "everything": lambda x: x.__setitem__(slice(None), 2),
    "indices": lambda x: x.__setitem__(np.array([5, -1, 5]), it.ones((3, 256))),
    "index tensor": lambda x: x.__setitem__(it.asarray([0, 2]), 4),
    "mask": lambda x: x.__setitem__(x > 100, 1),
    "row mask": lambda x: x.__setitem__(it.arange(256) > 250, it.ones(256)),
    "+=": lambda x: x.__iadd__(2),
    "-=": lambda x: x.__isub__(it.ones(256)),
    "*=": lambda x: x.__imul__(it.ones(SHAPE) * 3),
    "/=": lambda x: x.__itruediv__(4.0),
    "+= itself": lambda x: x.__iadd__(x),
    "-= reversed": lambda x: x.__isub__(x[::-1]),
    "own rows": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "own columns": lambda x: x.__setitem__((slice(None), slice(0, 128)), x[:, 64:192]),
}
SAME_PLACE = set(WRITES) - {"-= reversed", "own rows", "own columns"}


@pytest.mark.parametrize("name", WRITES)
def test_values_and_place(name: str) -> None:
    write = WRITES[name]
    x, plain = owned(), large().numpy().copy()
    plain[0, 0] = 0
    before = place(x)
    _on_numpy(name, plain)
    write(x)
    np.testing.assert_array_equal(x.numpy(), plain)
    assert (place(x) == before) == (name in SAME_PLACE)


def _on_numpy(name: str, x: np.ndarray) -> None:
    """The same writes by NumPy; what reads the array itself reads a copy."""
    old, one = x.copy(), np.ones(256, np.float32)
    writes: dict[str, Callable[[], Any]] = {
        "number": lambda: x.__setitem__((1, 2), 7),
        "row": lambda: x.__setitem__(3, 1),
        "steps": lambda: x.__setitem__((slice(None, None, 2), slice(-1, 9, -3)), 1.5),
        "everything": lambda: x.__setitem__(slice(None), 2),
        "indices": lambda: x.__setitem__([5, -1], 1),
        "index tensor": lambda: x.__setitem__([0, 2], 4),
        "mask": lambda: x.__setitem__(old > 100, 1),
        "row mask": lambda: x.__setitem__(np.arange(256) > 250, one),
        "+=": lambda: np.add(x, 2, out=x),
        "-=": lambda: np.subtract(x, one, out=x),
        "*=": lambda: np.multiply(x, 3, out=x),
        "/=": lambda: np.divide(x, 4, out=x),
        "+= itself": lambda: np.add(x, old, out=x),
        "-= reversed": lambda: np.subtract(x, old[::-1], out=x),
        "own rows": lambda: x.__setitem__(slice(1, None), old[:-1]),
        "own columns": lambda: x.__setitem__((slice(None), slice(0, 128)), old[:, 64:192]),
    }
    writes[name]()


HOLDERS: dict[str, Callable[[it.Tensor], Callable[[], Any]]] = {
    "another tensor": lambda x: copy.copy(x).numpy,
    "a deep copy": lambda x: copy.deepcopy(x).numpy,
    "a row": lambda x: x[3].numpy,
    "a transposed view": lambda x: x.T.numpy,
    "a view of a view": lambda x: it.reshape(x[2:10, 1:], (-1,)).numpy,
    "a broadcast row": lambda x: it.broadcast_to(x[5], (4, 256)).numpy,
    "a cell": lambda x: it.Cell(x).value.numpy,
    "a NumPy array": lambda x: _array(x.numpy()),
    "a view of a NumPy array": lambda x: _array(x.numpy()[4:, ::2]),
    "a memory view": lambda x: _array(np.asarray(memoryview(x.numpy()))),
    "an array without copy": lambda x: _array(np.asarray(x)),
    "DLPack": lambda x: _array(np.from_dlpack(Shared(x))),
    "a tensor that records": lambda x: x.require_grad().detach().numpy,
    "a named tuple of parts": lambda x: it.unstack(x)[7].numpy,
}


class Shared:
    """A tensor that exports its own memory through DLPack."""

    def __init__(self, x: it.Tensor) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**{**options, "copy": False})

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()


def _array(values: np.ndarray) -> Callable[[], np.ndarray]:
    return lambda: values


@pytest.mark.sampled(4)
@BOTH
@pytest.mark.parametrize("first", [False, True], ids=["fresh", "owned"])
@pytest.mark.parametrize("name", HOLDERS)
def test_holders_keep_their_values(name: str, first: bool) -> None:
    x = owned() if first else large()
    show = HOLDERS[name](x)
    before = np.array(show())
    for write in WRITES.values():
        write(x)
        np.testing.assert_array_equal(show(), before)


@pytest.mark.parametrize("name", [n for n in HOLDERS if n != "a tensor that records"])
def test_a_holder_that_is_gone_does_not_matter(name: str) -> None:
    x = owned()
    before = place(x)
    show = HOLDERS[name](x)
    del show
    x += 1
    assert place(x) == before


@BOTH
def test_the_holder_may_be_written_too() -> None:
    x = owned()
    y = copy.copy(x)
    x[1, 1] = -1
    y[1, 1] = -2
    y += 1
    assert (x[1, 1].item(), y[1, 1].item(), y[0, 0].item()) == (-1, -1, 1)


def test_a_view_that_is_left_alone_owns_the_memory() -> None:
    x = owned()
    y = x[8:200]
    before, values = place(y), y.numpy().copy()
    del x
    y += 1
    assert place(y) == before
    np.testing.assert_array_equal(y.numpy(), values + 1)


@BOTH
def test_views_that_overlap_themselves_are_copied() -> None:
    row = it.zeros(SIZE)
    row[0] = 1
    y = it.broadcast_to(row, (2, SIZE))
    del row
    y[0, 1] = 5
    assert y[:, 1].tolist() == [5, 0]


@BOTH
def test_values_saved_for_gradients_survive() -> None:
    x, w = owned(), it.Cell(it.ones(SHAPE), differentiable=True)
    values = x.numpy().copy()
    loss = (w * x).sum()
    x *= 0
    x[0] = 9
    np.testing.assert_array_equal(loss.backward()[w].numpy(), values)


@BOTH
def test_values_that_transforms_hold_survive() -> None:
    x = owned()
    values = x.numpy().copy()

    def function(y: it.Tensor) -> it.Tensor:
        nonlocal x
        x += 1
        return (y * y).sum()

    np.testing.assert_array_equal(grad(function)(x).numpy(), 2 * values)
    values = x.numpy().copy()

    def row(y: it.Tensor) -> it.Tensor:
        nonlocal x
        x += 1
        return y * 2

    np.testing.assert_array_equal(vmap(row)(x).numpy(), 2 * values)


@BOTH
def test_a_checkpoint_replays_with_the_values_of_its_first_run() -> None:
    x, w = owned(), it.Cell(it.ones(SHAPE), differentiable=True)
    values = x.numpy().copy()
    loss = checkpoint(lambda a: (w * a * a).sum())(copy.copy(x))
    x *= 0
    np.testing.assert_allclose(loss.backward()[w].numpy(), values**2, rtol=1e-6)


@BOTH
def test_recorded_and_detached_values_are_never_written() -> None:
    x = owned()
    y = x.require_grad() * 1.0
    with no_grad():
        z = it.reshape(y, (-1,))
    z += 1
    w = y.detach()
    w += 1
    np.testing.assert_array_equal(y.numpy(), x.numpy())


@BOTH
def test_transactions_keep_what_they_read_and_wrote() -> None:
    cell = it.Cell(owned())
    values = cell.value.numpy().copy()

    def write() -> None:
        with it.transaction():
            x = cell.value
            x += 1
            cell.value = x
            x += 1
            np.testing.assert_array_equal(cell.value.numpy(), values + 1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    np.testing.assert_array_equal(cell.value.numpy(), values)


@BOTH
def test_a_wrong_write_changes_nothing() -> None:
    x = owned()
    values = x.numpy().copy()
    with pytest.raises(OutOfRangeError):
        x[it.asarray([1, 256])] = 3
    with pytest.raises(OutOfRangeError):
        x[256] = 3
    with pytest.raises(ShapeError):
        x[1:3] = it.ones(5)
    with pytest.raises(ShapeError):
        x += it.ones((2, 256, 256))
    with pytest.raises(DTypeError):
        x += it.ones(256, dtype="float64")
    np.testing.assert_array_equal(x.numpy(), values)


@pytest.mark.parametrize("dtype", ["int32", "bool", "bfloat16", "complex64", "float64"])
def test_dtypes(dtype: str) -> None:
    x = it.ones((512, 512), dtype=dtype)
    x[2, 3] = 0
    before = place(x)
    x[4] = it.zeros(512, dtype=dtype)
    x[5:7, 1] = 0
    assert place(x) == before
    expected = np.ones((512, 512))
    expected[2, 3] = 0
    expected[4] = 0
    expected[5:7, 1] = 0
    np.testing.assert_array_equal(x.numpy().real.astype(np.float64), expected)


def test_cotangents_are_added_in_place_without_a_trace() -> None:
    """In float64: terms cancel, so that float32's digits would depend on the order of sums."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal(SHAPE) / 16
    w, x = it.Cell(it.asarray(a), differentiable=True), it.ones((4, 256), dtype="float64")
    h = x
    for _ in range(6):
        h = h @ w
    kept = h.sum().backward()
    again = h.sum().backward()
    # The sum of x a^6 has the gradient (a^i)^T x^T 1 (a^(5-i))^T, summed over the six places.
    powers = [np.linalg.matrix_power(a, i) for i in range(6)]
    ones = np.ones((4, 256))
    expected = sum(powers[i].T @ ones.T @ ones @ powers[5 - i].T for i in range(6))
    np.testing.assert_allclose(kept[w].numpy(), expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(kept[w].numpy(), again[w].numpy())


def test_a_sum_that_goes_to_two_inputs_is_not_written() -> None:
    """The rule of `add` hands one cotangent to both: each adds to a sum of its own."""
    a, b = large().require_grad(), large().require_grad()
    both = a + b
    loss = (both * 2 + both * 3 + both * 4 + a * 10 + a * 20 + b * 100).sum()
    grads = loss.backward()
    assert (grads[a][0, 0].item(), grads[b][0, 0].item()) == (39, 109)


@BOTH
def test_threads_that_hold_a_value_see_it_unchanged() -> None:
    cell = it.Cell(owned())
    stop, torn = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            values = cell.value.numpy()
            if values.min() != values.max():
                torn.append(values)

    cell.value = it.zeros(SHAPE)
    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(200):
        x = cell.value
        x += 1
        x *= 1.5
        cell.value = x
    stop.set()
    reader.join()
    assert not torn


class Walk:
    """Objects that hold values, with what they should hold; one random action after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: list[tuple[it.Tensor, np.ndarray]] = []
        self.others: list[tuple[Callable[[], Any], np.ndarray]] = []
        self.new()

    def new(self) -> None:
        values = self.rng.integers(-8, 8, SHAPE).astype(np.float32)
        self.tensors.append((it.asarray(values), values.copy()))

    def pick(self) -> tuple[it.Tensor, np.ndarray]:
        return self.tensors[int(self.rng.integers(len(self.tensors)))]

    def share(self) -> None:
        x, values = self.pick()
        self.tensors.append((copy.copy(x), values.copy()))

    def view(self) -> None:
        x, values = self.pick()
        kind = int(self.rng.integers(3))
        if kind == 0 and x.shape == SHAPE:
            self.others.append((x[10:20].numpy, values[10:20].copy()))
        elif kind == 1:
            self.tensors.append((x.T, values.T.copy()))
        else:
            held = x[::-1]
            self.others.append((held.numpy, values[::-1].copy()))

    def export(self) -> None:
        x, values = self.pick()
        self.others.append((_array(x.numpy()[1:]), values[1:].copy()))

    def cell(self) -> None:
        x, values = self.pick()
        cell = it.Cell(x, differentiable=True)
        self.others.append((lambda: cell.value.numpy(), values.copy()))
        self.tensors.append((cell.raw, values.copy()))

    def record(self) -> None:
        x, values = self.pick()
        w = it.ones(SHAPE).require_grad()
        y = w * x
        self.others.append((lambda: y.sum().backward()[w].numpy(), values.copy()))

    def combine(self) -> None:
        (x, values), (y, more) = self.pick(), self.pick()
        more = more.copy()
        x += y
        values += more

    def assign(self) -> None:
        (x, values), (y, more) = self.pick(), self.pick()
        i, more = int(self.rng.integers(256)), more.copy()
        x[i] = y[i]
        values[i] = more[i]

    def scatter(self) -> None:
        x, values = self.pick()
        rows = self.rng.permutation(256)[:3]
        x[it.asarray(rows)] = -3
        values[rows] = -3

    def forget(self) -> None:
        for held in (self.tensors, self.others):
            if len(held) > 1:
                del held[int(self.rng.integers(len(held)))]

    def check(self) -> None:
        for x, values in self.tensors:
            np.testing.assert_array_equal(x.numpy(), values)
        for show, values in self.others:
            np.testing.assert_array_equal(show(), values)


ACTIONS = (
    Walk.new, Walk.share, Walk.view, Walk.export, Walk.cell, Walk.record, Walk.combine,
    Walk.assign, Walk.assign, Walk.scatter, Walk.combine, Walk.forget, Walk.forget, Walk.forget,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(8)
@BOTH
@pytest.mark.parametrize("seed", range(12))
def test_random_walks(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(60):
        ACTIONS[int(walk.rng.integers(len(ACTIONS)))](walk)
        walk.check()


def test_memory_goes_back() -> None:
    gc.collect()
    before = it.memory.stats().in_use
    x = owned()
    views = [x[i] for i in range(5)]
    arrays = [x.numpy(), x.T.numpy()]
    x += 1
    del x, views
    assert it.memory.stats().in_use > before
    del arrays
    assert it.memory.stats().in_use == before


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_assignments_are_in_place_where_operations_are_recorded() -> None:
    x = owned()
    before = place(x)
    for i in range(8):
        x[i] = i
        assert x[i, 3].item() == i
        y = x[i] * 2.0  # written down, and needed after the memory was written again
        x[i] = 7
        assert y[0].item() == 2 * i
    assert place(x) == before
    kept = it.reshape(x, (-1,))
    x[0] = 9
    assert kept[0].item() == 7
    assert place(x) != before

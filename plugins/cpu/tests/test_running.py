"""Running sums, products and extremes: one kernel each, one element after the other."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import hessian
from ingle.fusion import compile, explain
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.ops.scans.recurrence import linear_recurrence

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint16", "int64", "uint64", "bool"]
RUNNING = {
    "sum": it.cumulative_sum,
    "prod": it.cumulative_prod,
    "largest": lambda x, axis: it.cummax(x, axis=axis)[0],
    "smallest": lambda x, axis: it.cummin(x, axis=axis)[0],
    "last largest": lambda x, axis: it.cummax(x, axis=axis)[1],
    "last smallest": lambda x, axis: it.cummin(x, axis=axis)[1],
}


@pytest.fixture(autouse=True)
def device():
    with it.device("cpu"):
        yield


def drawn(shape, dtype="float32"):
    """Small numbers as an array of a dtype."""
    numbers = np.random.default_rng(shape).integers(-3, 4, shape)
    return (numbers % 2 if dtype == "bool" else numbers).astype(as_dtype(dtype).dtype)


def kinds(function, *args):
    """What runs a function: nests and products, or the host."""
    return {step.kind for step in explain(function, *args, runs=0).steps}


def agree(function, array):
    """Compiled and recorded, the bits of the numpy backend, and no step of the host."""
    with it.device("numpy"):
        want = function(it.asarray(array)).numpy()
    x, compiled = it.asarray(array), compile(function)
    for way in (compiled, compiled, compiled, function, function):
        np.testing.assert_array_equal(way(x).numpy(), want)
    assert "host" not in kinds(function, x)


def every_axis(name, dtype, shapes):
    running = RUNNING[name]
    for shape in shapes:
        for axis in range(len(shape)):
            agree(lambda x, axis=axis: running(x, axis=axis), drawn(shape, dtype))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RUNNING)
def test_every_axis(name, dtype):
    every_axis(name, dtype, [(3, 7, 40)])


@pytest.mark.parametrize(
    "dtype",
    [d if d == "float32" else pytest.param(d, marks=pytest.mark.nightly) for d in DTYPES],
)
@pytest.mark.parametrize("name", RUNNING)
def test_every_axis_of_other_shapes(name, dtype):
    every_axis(name, dtype, [(5,), (6, 9), (1, 130), (2, 1, 3, 2)])


@pytest.mark.parametrize("name", RUNNING)
def test_of_views(name):
    running = RUNNING[name]
    x = drawn((6, 20))
    agree(lambda x: running(x.T, axis=0), x)
    agree(lambda x: running(x.T, axis=1), x)
    agree(lambda x: running(it.flip(x, axis=1)[::2], axis=1), x)
    agree(lambda x: running(it.broadcast_to(x[:, :1], (6, 20)), axis=1), x)
    agree(lambda x: running(it.broadcast_to(x[0], (5, 6, 20)), axis=1), x)
    agree(lambda x: running(it.ones_like(x), axis=1), x)
    agree(lambda x: running(x * 2 - 1, axis=1) + x, x)
    agree(lambda x: it.concat([running(x + 1, axis=0), running(x, axis=0)], axis=1), x)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", RUNNING)
def test_nans_infinities_and_zeros(name, dtype):
    odd = np.array([-0.0, 0.0, 1, -np.inf, 2, 2, np.inf, np.nan, 3, np.nan, np.inf, -5])
    odd = np.stack([odd, odd[::-1], np.full(12, -np.inf), np.full(12, np.nan)])
    running = RUNNING[name]
    for axis in (0, 1):
        with it.device("numpy"):
            want = running(it.asarray(odd.astype(as_dtype(dtype).dtype)), axis=axis).numpy()
        x = it.asarray(odd.astype(as_dtype(dtype).dtype))
        found = compile(lambda x, axis=axis: running(x, axis=axis))(x).numpy()
        np.testing.assert_array_equal(found.astype(np.float64), want.astype(np.float64))
        np.testing.assert_array_equal(np.signbit(found)[want == 0], np.signbit(want)[want == 0])


@pytest.mark.parametrize(("shape", "axis"), [((3, 40_000), 1), ((400, 300), 0), ((70, 9, 64), 1)])
def test_sums_are_added_one_after_the_other_in_double_precision(shape, axis):
    """Another order, or another number of workers, would give other bits."""
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    add = compile(lambda x: it.cumulative_sum(x, axis=axis))
    want = np.add.accumulate(x, axis=axis, dtype=np.float64).astype(np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(add(it.asarray(x)).numpy(), want)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("where", ["cpu", "numpy"])
def test_long_sums_do_not_drift(where, dtype):
    size = 300_000 if dtype in ("float32", "complex64") else 100_000
    with it.device(where):
        x = it.full((size, 1), 0.1, dtype=dtype)
        tenth = x[0, 0].astype("complex128").item()
        want = np.arange(1, size + 1) * tenth
        ulp = float(it.finfo(dtype).eps)
        for way in (it.cumulative_sum, compile(it.cumulative_sum)):
            for axis in (x[:, 0], it.broadcast_to(x, (size, 9))):
                found = way(axis, axis=0).astype("complex128").numpy().reshape(size, -1)[:, -1]
                kept = np.abs(want) < 60_000  # what float16 holds
                assert np.max(np.abs(found - want)[kept] / np.abs(want[kept])) <= ulp * 0.51


@pytest.mark.parametrize("where", ["cpu", "numpy"])
def test_long_products_and_logarithms_of_sums_do_not_drift(where):
    with it.device(where):
        product = it.cumulative_prod(it.full((100_000,), 1.0001))[-1].item()
        total = it.logcumsumexp(it.zeros((100_000,)))[-1].item()
    assert product == pytest.approx(float(np.float32(1.0001)) ** 100_000, rel=1e-7)
    assert total == pytest.approx(np.log(100_000), rel=4e-7)  # some additions deep


def test_dtypes_and_what_stands_in_front():
    x = drawn((4, 6), "int8")
    agree(lambda x: it.cumulative_sum(x, axis=1, dtype=it.float32), x)
    agree(lambda x: it.cumulative_sum(x, axis=1, dtype=it.int8), x)
    agree(lambda x: it.cumulative_prod(x, axis=0, include_initial=True), x)
    told = explain(lambda x: it.cumulative_sum(x * 2, axis=1, include_initial=True),
                   it.asarray(drawn((300, 80))), runs=0)  # fmt: skip
    assert sum(step.nbytes > 100_000 for step in told.steps) == 2  # the double and the sums


def test_empty_ones():
    for shape in ((0,), (3, 0), (0, 3)):
        add = compile(lambda x: it.cumulative_sum(x, axis=0))
        for _ in range(3):
            assert add(it.zeros(shape)).shape == shape


@pytest.mark.parametrize("name", ["sum", "prod", "largest", "smallest"])
def test_gradients(name):
    x = np.random.default_rng(0).normal(size=(5, 12)).astype(np.float32)
    x[2, 3] = x[4, 5] = 0

    def step(x):
        x = x.require_grad()
        y = RUNNING[name](x, axis=1)
        return (y * y).sum().backward()[x]

    with it.device("numpy"):
        want = step(it.asarray(x)).numpy()
    compiled = compile(step)
    for way in (compiled, compiled, compiled, step):
        np.testing.assert_allclose(way(it.asarray(x)).numpy(), want, rtol=1e-4, atol=1e-5)
    assert "host" not in kinds(step, it.asarray(x))


def test_state_is_written_where_it_lies():
    total = it.Cell(it.asarray(drawn((50, 40))))

    @compile
    def step():
        total.value = it.cumulative_sum(total.value, axis=1)

    want = total.value.numpy()
    addresses = set()
    for n in range(8):
        step()
        want = np.add.accumulate(want, axis=1, dtype=np.float64).astype(np.float32)
        if n >= 4:
            addresses.add(total.value._handle.computed().address)
    np.testing.assert_array_equal(total.value.numpy(), want)
    assert len(addresses) == 1


def test_another_size_compiles_no_other_kernel():
    from ingle_cpu.jit.engine import engine

    add = compile(lambda x: (it.cumulative_sum(x, axis=0), it.cumulative_sum(x, axis=1)))
    for _ in range(3):
        add(it.zeros((30, 50)))
    before = engine().counts
    for _ in range(3):
        add(it.zeros((77, 123)))
    after = engine().counts
    assert (after.compiled, after.loaded) == (before.compiled, before.loaded)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(5,), (1, 3), (3, 7, 40), (40, 9, 2), (130, 5)])
def test_recurrences(shape, dtype):
    rng = np.random.default_rng(shape)
    a, b = (rng.uniform(-1, 1, shape).astype(dtype) for _ in range(2))
    a[0], b[-1] = np.nan, 2  # a first factor does not matter
    for axis in range(len(shape)):
        factors, want = (np.moveaxis(v.astype(float), axis, 0) for v in (a, b.copy()))
        want = want.copy()
        for t in range(1, len(want)):
            want[t] += factors[t] * want[t - 1]
        want = np.moveaxis(want, 0, axis)

        def function(x, y, axis=axis):
            return linear_recurrence(x, y, axis=axis)

        tensors = it.asarray(a), it.asarray(b)
        tolerance = 1e-2 if dtype == "float16" else 1e-5
        for way in (compile(function), function):
            np.testing.assert_allclose(way(*tensors).numpy(), want, tolerance, tolerance)
        assert "host" not in kinds(function, *tensors)
        order = tuple(range(len(shape)))[::-1]
        turned = [it.permute_dims(it.asarray(v.T.copy()), order) for v in (a, b)]
        np.testing.assert_array_equal(function(*turned).numpy(), function(*tensors).numpy())


@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((6,), 0), ((4, 9), 1), ((9, 17), 0)])
def test_gradients_of_running_products_divide_by_nothing(shape, axis, zeros):
    rng = np.random.default_rng(zeros)
    x, g = rng.uniform(0.5, 2, (2, *shape))
    lines = np.moveaxis(x, axis, 0)
    lines[1 : 2 * zeros : 2] = 0

    def gradient(x, g):
        x = x.require_grad()
        return it.cumulative_prod(x, axis=axis).backward(g)[x]

    want = np.zeros(shape)
    for place in np.ndindex(*shape):  # linear in each element
        ends = [x.copy(), x.copy()]
        ends[0][place], ends[1][place] = 1, 0
        want[place] = ((ends[0].cumprod(axis) - ends[1].cumprod(axis)) * g).sum()
    tensors = it.asarray(x), it.asarray(g)
    for way in (gradient, compile(gradient)):
        np.testing.assert_allclose(way(*tensors).numpy(), want, rtol=1e-12, atol=1e-12)
    assert "host" not in kinds(gradient, *tensors)


def test_second_gradients_of_running_products_at_zeros():
    x = it.asarray(np.array([2.0, 0.0, 3.0, 0.0]))

    def total(x):
        return it.sum(it.cumulative_prod(x))

    found = hessian(total)(x).numpy()
    # x0 + x0 x1 + x0 x1 x2 + x0 x1 x2 x3
    want = np.zeros((4, 4))
    want[0, 1] = 1 + 3 + 0
    want[1, 2] = 2 + 2 * 0
    want[1, 3] = 2 * 3
    np.testing.assert_allclose(found, want + want.T)

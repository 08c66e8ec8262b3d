"""Results put together from pieces, parts written at computed places, scatters: all in kernels."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.errors import OutOfRangeError

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint16", "int64", "bool"]


@pytest.fixture(autouse=True)
def device():
    with it.device("cpu"):
        yield


def drawn(shape, dtype="float32", seed=0):
    """Numbers as an array of a dtype."""
    numbers = np.random.default_rng((seed, *shape)).integers(-9, 10, shape)
    return (numbers % 2 if dtype == "bool" else numbers).astype(as_dtype(dtype).dtype)


def kinds(function, *args):
    """What runs a function: nests and products, or the host."""
    return {step.kind for step in explain(function, *args, runs=0).steps}


def agree(function, *arrays):
    """Compiled and recorded, the bits of the numpy backend, and no step of the host."""
    with it.device("numpy"):
        want = function(*[it.asarray(a) for a in arrays]).numpy()
    tensors = [it.asarray(a) for a in arrays]
    compiled = compile(function)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(*tensors).numpy(), want)
        np.testing.assert_array_equal(function(*tensors).numpy(), want)
    assert "host" not in kinds(function, *tensors)


JOINED = {
    "two": lambda a: it.concat([a, a]),
    "inner axis": lambda a: it.concat([a, a[:, :2]], axis=1),
    "stack": lambda a: it.stack([a, it.flip(a, axis=1)], axis=-1),
    "transposed": lambda a: it.concat([it.permute_dims(a, (1, 0)), a.T[:3]]),
    "broadcast": lambda a: it.concat([it.broadcast_to(a[0], (4, 7)), a], axis=0),
    "empty part": lambda a: it.concat([a[:0], a, a[:1], a[2:2]], axis=0),
    "pad": lambda a: it.pad(a, ((1, 2), (3, 0))),
    "pad by a number": lambda a: it.pad(a, ((0, 2), (3, 1)), value=1),
    "reflect": lambda a: it.pad(a, ((2, 1), (3, 0)), mode="reflect"),
    "edge": lambda a: it.pad(a, ((2, 1), (3, 0)), mode="edge"),
    "roll": lambda a: it.roll(a, 3, axis=1),
    "rolled flat": lambda a: it.roll(a, -4),
    "tiled": lambda a: it.tile(a, (2, 3)),
    "nested": lambda a: it.concat([it.concat([a, a], axis=1), it.concat([a, a], axis=1)]),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", JOINED)
def test_joined(name, dtype):
    agree(JOINED[name], drawn((5, 7), dtype))


def test_many_axes_and_long_ones():
    agree(lambda a: it.concat([a, a], axis=2), drawn((2, 1, 3, 2, 1, 2)))
    agree(lambda a: it.concat([a, a[:, :1], a], axis=1), drawn((300, 301)))


def test_a_piece_is_computed_where_it_belongs():
    x = it.asarray(drawn((40, 50)))

    def joined(x):
        return it.concat([x * 2.0, it.sum(x, axis=1, keepdims=True), it.abs(x)], axis=1)

    names = [step.name for step in explain(joined, x, runs=0).steps]
    assert not any("concat" in name for name in names), names
    agree(joined, x.numpy())
    agree(lambda x: it.pad(it.relu(x - 1.0), ((1, 1), (2, 2))), x.numpy())
    # Somebody else needs it, or it comes twice: then it is copied.
    agree(lambda x: it.concat([y := x * 2.0, it.sum(y, axis=0, keepdims=True)]), x.numpy())
    agree(lambda x: it.concat([y := x * 2.0, y]), x.numpy())


def chain(x, i):
    """Updates on updates of a value that nobody else sees."""
    y = it.slice_update(x * 2, x[:2], (3, 0))
    y = it.scatter_add(y, i, x[:3])
    y = it.slice_update(y, x[:2, :3], (i[0], 2))
    return it.scatter_set(y, i, x[:3] + 1, axis=0)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_updates_of_a_value_that_nobody_else_sees_copy_nothing(dtype):
    x, i = drawn((6, 9), dtype), np.array([1, -1, 3])
    agree(chain, x, i)
    agree(lambda x, i: it.concat([chain(x, i), x], axis=1), x, i)
    agree(lambda x, i: it.pad(it.concat([chain(x, i), x - 1], axis=1).T, 2), x, i)
    agree(lambda x, i: it.stack([chain(x, i), x], axis=-1), x, i)
    agree(lambda x, i: (y := chain(x, i)) + it.slice_update(y, x[:1], (1, 0)), x, i)
    agree(lambda x, i: it.slice_update(y := x * 2, y[:2], (4, 0)), x, i)
    agree(lambda x, i: it.scatter_add(y := x * 2, i, y[:3]), x, i)
    wide = it.asarray(drawn((600, 9)))
    told = explain(chain, wide, it.asarray(i), runs=0)
    assert sum(step.nbytes > wide.nbytes for step in told.steps) == 1  # the product with 2


@pytest.mark.slow
def test_one_row_of_one_column_of_a_part():
    """Sizes of 1, whose strides mean nothing."""
    i = np.array([0, 0, -1])
    for shape in ((1, 4), (4, 1), (1, 1), (1, 1, 3), (3, 1, 1)):
        x = drawn(shape)
        for axis in range(len(shape)):
            if shape[axis] != 1:
                continue
            agree(
                lambda x, i, axis=axis: it.concat(
                    [it.scatter_add(x * 2, i, it.take(x, i, axis=axis), axis=axis), x], axis=axis
                ),
                x, i,
            )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_are_written(dtype):
    x, y = drawn((6, 9), dtype), drawn((3, 4), dtype, 1)
    agree(lambda x, y: it.slice_update(x, y, (1, 2)), x, y)
    agree(lambda x, y: it.slice_update(x, y, (5, 1), (-2, 2)), x, y)
    agree(lambda x, y: it.slice_update(x, y, (-4, -4)), x, y)
    agree(lambda x, y: it.slice_update(x, x, (0, 0)), x, y)
    agree(lambda x, y: it.slice_update(it.zeros_like(x), y, (5, 1), (-2, 2)), x, y)


@pytest.mark.parametrize("kind", ["int8", "int64", "uint32"])
def test_places_from_tensors(kind):
    x, y, at = drawn((6, 9)), drawn((3, 4), seed=1), np.array([2, 3], kind)
    agree(lambda x, y, at: it.slice_update(x, y, (at[0], at[1])), x, y, at)
    agree(lambda x, y, at: it.slice_update(x.T, y, (at[0], 1), (2, -1)), x, y[:, :1], at)
    agree(lambda x, y, at: it.slice(x, (at[0], 1), (3, 4), (-1, 2)), x, y, at)
    agree(lambda x, y, at: it.slice(it.flip(x.T, axis=0), (at[0], at[1]), (3, 3)), x, y, at)
    if kind != "uint32":
        agree(lambda x, y, at: it.slice_update(x, y, (at[0], 1)), x, y, -at - 2)


def test_places_from_numbers_take_one_kernel():
    x, y = drawn((40, 3)), drawn((2, 3), seed=1)
    update = compile(lambda x, y, n: it.slice_update(x, y, (n, 0)))
    read = compile(lambda x, n: it.slice(x, (n, 0), (2, 3)))
    for n in range(0, 38, 3):
        want = x.copy()
        want[n : n + 2] = y
        np.testing.assert_array_equal(update(it.asarray(x), it.asarray(y), n).numpy(), want)
        np.testing.assert_array_equal(read(it.asarray(x), n).numpy(), x[n : n + 2])
    assert update.recordings <= 3
    assert read.recordings <= 3


@pytest.mark.parametrize("wrong", [39, -41, 1000, 2**40])
def test_a_piece_that_does_not_lie_inside_is_an_error(wrong):
    x, y, at = it.asarray(drawn((40, 3))), it.asarray(drawn((2, 3))), it.asarray(wrong)
    for function in (
        lambda x, y, at: it.slice_update(x, y, (at, 0)),
        lambda x, y, at: it.slice(x, (at, 0), (2, 3)),
    ):
        with pytest.raises(OutOfRangeError, match="slice"):
            compile(function)(x, y, at).numpy()
        with pytest.raises(OutOfRangeError, match="slice"):
            function(x, y, at).numpy()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
@pytest.mark.parametrize("name", ["scatter_add", "scatter_set"])
def test_scatters(name, dtype):
    scatter = getattr(it, name)
    x, i = drawn((6, 9), dtype), np.array([[1, -1, 3], [1, 1, 0]])
    agree(lambda x, i, u: scatter(x, i, u), x, i, drawn((2, 3, 9), dtype))
    agree(lambda x, i, u: scatter(x, i, u, axis=1), x, i, drawn((6, 2, 3), dtype))
    agree(lambda x, i, u: scatter(x, i[0], u.T, axis=0), x, i, drawn((9, 3), dtype))
    agree(lambda x, i, u: scatter(x, i[0, 1], u), x, i, drawn((9,), dtype))
    agree(lambda x, i, u: scatter(x.T, i.T, u), x, i, drawn((3, 2, 6), dtype))
    agree(lambda x, i, u: scatter(x[0], i, u), x, i, drawn((2, 3), dtype))
    agree(lambda x, i, u: scatter(it.zeros_like(x), i[1], u * 2), x, i, drawn((3, 9), dtype))
    wide = it.broadcast_to
    agree(lambda x, i, u: scatter(x, i, wide(u[:, None], (2, 3, 9))), x, i, drawn((2, 9), dtype))
    agree(lambda x, i, u: scatter(x, i, wide(u, (2, 3, 9))), x, i, drawn((), dtype))


def reducing(reduce, include_self):
    """A scatter that combines what meets in one place."""
    return lambda x, i, u, axis=0: it.scatter_reduce(
        x, i, u, reduce, axis=axis, include_self=include_self
    )


EVERY_PAIR = [
    pytest.param(r, s, d, marks=[pytest.mark.nightly] if (i + j + k) % 2 else [])
    for i, r in enumerate(("prod", "amax", "amin"))
    for j, s in enumerate((True, False))
    for k, d in enumerate(d for d in [*DTYPES, "uint64", "int32"] if d != "bool")
]
"""Each reduction with each dtype, and either with both ways to begin. The rest runs at night."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("reduce", "include_self", "dtype"), EVERY_PAIR)
def test_scatters_that_reduce(reduce, include_self, dtype):
    scatter = reducing(reduce, include_self)
    x, i = drawn((6, 9), dtype), np.array([[1, -1, 3], [1, 1, 0]])
    agree(scatter, x, i, drawn((2, 3, 9), dtype))
    agree(lambda x, i, u: scatter(x, i, u, axis=1), x, i, drawn((6, 2, 3), dtype))
    agree(lambda x, i, u: scatter(x.T, i.T, u), x, i, drawn((3, 2, 6), dtype))
    agree(lambda x, i, u: scatter(x[0], i, u), x, i, drawn((2, 3), dtype))
    agree(lambda x, i, u: scatter(x, i[0, 1], u), x, i, drawn((9,), dtype))
    agree(lambda x, i, u: scatter(it.flip(x) * 2, i[1], u * 2) + x, x, i, drawn((3, 9), dtype))
    agree(lambda x, i, u: scatter(x, i, it.broadcast_to(u, (2, 3, 9))), x, i, drawn((), dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatters_that_reduce_keep_nans_and_infinities(dtype, include_self):
    kind = as_dtype(dtype).dtype
    x = np.array([1, np.nan, -np.inf, np.inf, 0, -0.0, 3, -2], kind)
    i = np.array([0, 0, 1, 2, 2, 3, 4, 5, 6, 6, 6])
    u = np.array([np.nan, 2, 1, np.inf, -5, -1, -0.0, -3, 2, np.nan, 9], kind)
    for reduce in ("prod", "amax", "amin"):
        scatter = reducing(reduce, include_self)
        with it.device("numpy"):
            want = scatter(it.asarray(x), it.asarray(i), it.asarray(u)).numpy()
        found = compile(scatter)(it.asarray(x), it.asarray(i), it.asarray(u)).numpy()
        np.testing.assert_array_equal(found.astype(np.float64), want.astype(np.float64))


def test_products_of_complex_numbers_are_left_to_numpy():
    x, i = it.asarray(drawn((4,)) + 2j), it.asarray([1, 1, -1])
    for include_self in (True, False):
        found = compile(reducing("prod", include_self))(x, i, x[:3] * 1j).numpy()
        with it.device("numpy"):
            y = it.asarray(x.numpy())
            want = reducing("prod", include_self)(y, it.asarray(i.numpy()), y[:3] * 1j)
        np.testing.assert_allclose(found, want.numpy(), rtol=1e-6)


def test_scatters_that_reduce_train_in_kernels_alone():
    """The largest of each executable, and its gradient, shared by those that are equal to it."""
    u, i = drawn((50, 7)), np.arange(50) % 9

    def step(u, i):
        u = u.require_grad()
        largest = it.scatter_reduce(it.zeros((9, 7)), i, u, "amax", include_self=False)
        return (largest * largest).sum().backward()[u]

    agree(step, u, i)


SAME_PLACE = {
    "full": lambda: it.full((3,), 2, dtype="int64"),
    "from behind": lambda: it.full((3,), -2, dtype="int32"),
    "broadcast": lambda: it.broadcast_to(it.asarray(4), (3,)),
    "part": lambda: it.zeros((2, 6), dtype="int64")[1, ::2],
}


@pytest.mark.parametrize("place", SAME_PLACE.values(), ids=SAME_PLACE)
def test_scatters_into_one_place_that_is_made_on_the_way(place):
    """Its indices are one number, which nobody had in memory for the kernel."""
    x, u = drawn((6, 9)), drawn((3, 9), seed=1)
    agree(lambda x, u: it.scatter_add(x, place(), u), x, u)
    agree(lambda x: it.scatter_add(x, place(), it.ones((3, 9))), x)
    agree(lambda x, u: it.scatter_set(x, place()[:1], u[:1]), x, u)
    agree(lambda x, u: reducing("amax", True)(x, place(), u), x, u)


def test_an_embedding_of_one_token_for_all_trains_in_kernels_alone():
    """As the first step of a decoder does."""

    def step(table):
        table = table.require_grad()
        first = it.embedding(it.ones((3,), dtype="int64"), table)
        return (first * first).sum().backward()[table]

    agree(step, drawn((6, 4)))


def test_scatter_of_bools_and_of_small_indices():
    x, u = drawn((6, 9), "bool"), drawn((3, 9), "bool", 1)
    for kind in ("int8", "uint8", "int16", "uint64"):
        agree(lambda x, i, u: it.scatter_set(x, i, u), x, np.array([1, 1, 5], kind), u)


def test_empty_scatters_and_updates():
    x, none = it.asarray(drawn((4, 3))), it.zeros((0,), dtype=it.int64)
    scatter = compile(lambda x, i, u: it.scatter_add(x, i, u))
    for _ in range(3):
        found = scatter(x, none, it.zeros((0, 3)))
        np.testing.assert_array_equal(found.numpy(), x.numpy())
    update = compile(lambda x, y: it.slice_update(x, y, (1, 1)))
    for _ in range(3):
        np.testing.assert_array_equal(update(x, it.zeros((0, 2))).numpy(), x.numpy())
    at = it.asarray(0)
    nothing = compile(lambda x, at: (it.slice(x, (at, 1), (0, 2)), x + 1.0))
    same = compile(lambda x, at: it.slice_update(x + 1.0, x[:0], (at, 0)))
    for _ in range(3):
        assert nothing(x, at)[0].shape == (0, 2)
        np.testing.assert_array_equal(same(x, at).numpy(), x.numpy() + 1)


@pytest.mark.parametrize("index", [6, -7, 2**40, -(2**62)])
@pytest.mark.parametrize("name", ["scatter_add", "scatter_set", "scatter_prod"])
def test_indices_out_of_range_are_errors(name, index):
    function = reducing("prod", True) if name == "scatter_prod" else getattr(it, name)
    x, i, u = it.asarray(drawn((6, 9))), it.asarray([0, index]), it.asarray(drawn((2, 9)))
    for way in (compile(function), function):
        for _ in range(3):
            with pytest.raises(OutOfRangeError, match=name):
                way(x, i, u).numpy()


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "width"), [(3, 300), (1000, 33), (50000, 1), (1, 1)])
def test_many_updates_on_few_rows_have_the_order_of_one_by_one(rows, width):
    """Float additions in another order would give other bits."""
    rng = np.random.default_rng(rows)
    count = 200_000 // width
    indices = rng.integers(-rows, rows, count)
    updates = rng.normal(size=(count, width)).astype(np.float32)
    want = np.zeros((rows, width), np.float32)
    np.add.at(want, indices, updates)
    add = compile(lambda i, u: it.scatter_add(it.zeros((rows, width)), i, u))
    put = compile(lambda i, u: it.scatter_set(it.zeros((rows, width)), i, u))
    many = compile(lambda i, u: reducing("prod", True)(it.ones((rows, width)), i, u))
    last, product = np.zeros((rows, width), np.float32), np.ones((rows, width), np.float32)
    for i, row in zip(indices, updates, strict=True):
        last[i] = row
        product[i] *= row
    for _ in range(3):
        given = it.asarray(indices), it.asarray(updates)
        np.testing.assert_array_equal(add(*given).numpy(), want)
        np.testing.assert_array_equal(put(*given).numpy(), last)
        np.testing.assert_array_equal(many(*given).numpy(), product)


def test_a_cache_in_a_cell_is_written_where_it_lies():
    cache = it.Cell(it.asarray(drawn((2, 64, 256))))
    row = drawn((2, 1, 256), seed=1)

    @compile
    def write(row, n):
        cache.value = it.slice_update(cache.value, row * 2.0, (0, n, 0))

    want = cache.value.numpy().copy()
    addresses = set()
    for n in range(12):
        write(it.asarray(row), n)
        want[:, n : n + 1] = row * 2
        if n >= 4:
            addresses.add(cache.value._handle.computed().address)
    np.testing.assert_array_equal(cache.value.numpy(), want)
    assert len(addresses) == 1


def test_a_value_that_somebody_holds_is_left_alone():
    table = it.Cell(it.asarray(drawn((500, 40))))
    step = compile(lambda i, u: setattr(table, "value", it.scatter_add(table.value, i, u)))
    i, u = it.asarray([3, 3, 499]), it.ones((3, 40))
    for n in range(6):
        held = table.value
        before = held.numpy().copy()
        step(i, u)
        np.testing.assert_array_equal(held.numpy(), before)
        assert table.value[3, 0].item() == before[3, 0] + 2, n


@pytest.mark.slow
def test_an_embedding_is_trained_in_kernels_alone():
    losses = {}
    for device in ("numpy", "cpu"):
        with it.device(device):
            it.random.seed(0)
            net = nn.Sequential(nn.Embedding(300, 16), nn.Linear(16, 5))
            optimizer = optim.Adam(net, lr=0.05)

            def step(x, y, net=net, optimizer=optimizer):
                loss = it.cross_entropy(it.mean(net(x), axis=1), y)
                optimizer.step(loss.backward())
                return loss

            x, y = it.asarray(drawn((8, 12)) % 7).astype("int64"), it.asarray(np.arange(8) % 5)
            way = compile(step) if device == "cpu" else step
            losses[device] = [way(x, y).item() for _ in range(8)]
            if device == "cpu":
                assert "host" not in kinds(step, x, y)
    assert losses["cpu"][-1] < losses["cpu"][0]
    np.testing.assert_allclose(losses["cpu"], losses["numpy"], rtol=1e-5)


def test_another_size_compiles_no_other_kernel():
    from ingle_cpu.jit.engine import engine

    def grown(rows, width, count):
        i = it.asarray(np.arange(count) % rows)
        x, u = it.zeros((rows, width)), it.asarray(drawn((count, width)))
        made = [compile(f) for f in (it.scatter_add, lambda x, i, u: it.concat([x, u, x]))]
        return [f(x, i, u).numpy() for f in made for _ in range(3)]

    grown(100, 50, 20)
    before = engine().counts
    grown(1234, 77, 31)
    after = engine().counts
    assert (after.compiled, after.loaded) == (before.compiled, before.loaded)

"""Dtypes that only store values: casts against ml_dtypes and PyTorch, movement, refusals."""

import pickle

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.dtypes import ALL_DTYPES, STORAGE_DTYPES, as_dtype, from_numpy_dtype
from ingle.tensor.errors import DTypeError, ShapeError
from ingle.tensor.operation import OPERATIONS
from ingle.testkit.bits import same_bits
from ingle.testkit.cases import cases
from ingle.testkit.trees import fill_arrays

FLOAT8 = [d for d in STORAGE_DTYPES if d.holds == "float"]
NARROW = [d for d in STORAGE_DTYPES if d.holds != "float"]
REAL = [d for d in ALL_DTYPES if not d.is_complex]
ACCEPTING = {
    "astype", "broadcast_to", "concat", "embedding", "equal", "not_equal", "pad",
    "permute_dims", "reshape", "scatter_set", "slice", "slice_update", "take", "take_along_axis",
    "where",
}  # fmt: skip


def every_value(dtype):
    """All the numbers that there are, in some order."""
    bits = np.arange(256 if dtype.bits == 8 else 1 << dtype.bits, dtype=np.uint8)
    return bits.view(dtype.dtype) if dtype.bits == 8 else bits.astype(dtype.dtype)


def grid(dtype):
    """Values of a storage dtype of shape (3, 4), in float32 and as a tensor."""
    low = 0 if dtype.holds == "unsigned" else -2
    values = (np.arange(12).reshape(3, 4) % 4 + low).astype(np.float32)
    values = np.clip(values, low, 3 if dtype.bits > 2 or low == 0 else 1)
    return values, it.asarray(values.astype(dtype.dtype))


def same(tensor, dtype, expected):
    assert tensor.dtype is dtype
    assert tensor.shape == np.shape(expected)
    np.testing.assert_array_equal(tensor.numpy().astype(np.float32), expected)


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_names_sizes_and_copies(dtype):
    assert as_dtype(dtype.name) is dtype
    assert as_dtype(dtype.dtype) is dtype
    assert as_dtype(getattr(ml_dtypes, dtype.name)) is dtype
    assert from_numpy_dtype(dtype.dtype) is dtype
    assert getattr(it, dtype.name) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert (dtype.kind, dtype.itemsize, dtype.is_storage) == ("storage", 1, True)
    assert dtype.bits == int("".join(c for c in dtype.name.split("_")[0] if c.isdigit()))
    computing = (dtype.is_floating, dtype.is_integer, dtype.is_inexact, dtype.is_complex)
    assert not any(computing)


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_limits(dtype):
    if dtype.holds == "float":
        info, theirs = it.finfo(dtype), ml_dtypes.finfo(dtype.dtype)
        assert (info.bits, info.dtype) == (8, dtype)
        assert (info.max, info.min, info.eps) == (
            float(theirs.max), float(theirs.min), float(theirs.eps),
        )  # fmt: skip
        assert info.smallest_normal == float(theirs.smallest_normal)
        with pytest.raises(DTypeError, match=f"iinfo: needs an integer dtype, got {dtype}"):
            it.iinfo(dtype)
    else:
        info, theirs = it.iinfo(dtype), ml_dtypes.iinfo(dtype.dtype)
        assert (info.bits, info.min, info.max) == (dtype.bits, theirs.min, theirs.max)
        with pytest.raises(DTypeError, match=f"finfo: needs a float .* got {dtype}"):
            it.finfo(dtype)


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_every_value_survives_the_way_there_and_back(dtype):
    values = every_value(dtype)
    x = it.asarray(values)
    assert (x.dtype, x.shape, x.nbytes) == (dtype, values.shape, values.size)
    assert same_bits(x, values)
    for wide in REAL:
        fits = wide.holds == "float" or (
            wide.is_integer and dtype.holds != "float" and (wide.is_signed or not dtype.is_signed)
        )
        if fits:
            back = x.astype(wide)
            assert back.dtype is wide
            want = values.astype(np.float64)
            np.testing.assert_array_equal(back.numpy().astype(np.float64), want)
            np.testing.assert_array_equal(back.astype(dtype).numpy().astype(np.float64), want)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_floats_round_to_the_nearest_and_ties_to_even(dtype, source):
    finite = np.sort(every_value(dtype).astype(np.float64))
    finite = np.unique(finite[np.isfinite(finite)])
    rng = np.random.default_rng(0)
    x = np.concatenate([
        rng.uniform(-440, 440, 2000), rng.uniform(-1, 1, 2000), rng.uniform(-0.02, 0.02, 2000),
        finite, (finite[1:] + finite[:-1]) / 2,
    ])  # fmt: skip
    x = x[np.abs(x) <= 448].astype(as_dtype(source).dtype)
    got = it.asarray(x).astype(dtype).astype("float64").numpy()
    wide = x.astype(np.float64)
    above = np.clip(np.searchsorted(finite, wide), 1, len(finite) - 1)
    low, high = finite[above - 1], finite[above]
    to_low, to_high = wide - low, high - wide
    np.testing.assert_array_less(np.abs(got - wide), np.minimum(to_low, to_high) + 1e-12)
    tied = to_low == to_high
    assert np.count_nonzero(tied) > 100
    bits = it.bitcast(it.asarray(got[tied]).astype(dtype), "uint8").numpy()
    assert not np.any(bits & 1), "a tie goes to the number whose last bit is 0"


def test_float8_overflows_as_ml_dtypes_does():
    x = it.asarray([448.0, 464.0, 465.0, -1e9, float("inf"), float("-inf"), float("nan")])
    got = x.astype("float8_e4m3fn").astype("float32").tolist()
    assert got[:2] == [448.0, 448.0]
    assert all(np.isnan(got[2:]))
    x = it.asarray([57344.0, 61439.0, 61440.0, -1e9, float("inf"), float("nan")])
    got = x.astype("float8_e5m2").astype("float32").tolist()
    assert got[:5] == [57344.0, 57344.0, float("inf"), float("-inf"), float("inf")]
    assert np.isnan(got[5])


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_float8_agrees_with_torch(dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-448, 448, 5000), rng.normal(size=5000) * 1e-2])
    x = x.astype(np.float32)
    got = it.asarray(x).astype(dtype).astype("float32").numpy()
    want = torch.from_numpy(x).to(getattr(torch, dtype.name)).float().numpy()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("source", [d for d in ALL_DTYPES if d.is_integer], ids=str)
def test_integers_keep_their_lowest_bits(dtype, source):
    info = np.iinfo(source.dtype)
    few = range(max(info.min, -40), min(info.max, 40))
    x = np.asarray([*few, info.min, info.max], source.dtype)
    got = it.asarray(x).astype(dtype).astype("int64").numpy()
    mask = (1 << dtype.bits) - 1
    want = np.asarray([int(v) & mask for v in x])
    if dtype.holds == "signed":
        want = np.where(want > mask // 2, want - mask - 1, want)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_floats_become_narrow_integers_towards_zero(dtype):
    low, high = it.iinfo(dtype).min, it.iinfo(dtype).max
    x = np.linspace(low, high, 37, dtype=np.float32)
    np.testing.assert_array_equal(
        it.asarray(x).astype(dtype).astype("float32").numpy(), np.trunc(x)
    )


@pytest.mark.parametrize("a", STORAGE_DTYPES, ids=str)
@pytest.mark.parametrize("b", STORAGE_DTYPES, ids=str)
def test_from_one_storage_dtype_to_another(a, b):
    x = it.asarray([0, 1]).astype(a)
    same(x.astype(b), b, [0, 1])
    same(it.asarray(x.numpy(), dtype=b), b, [0, 1])
    if a.holds != "float" and b.holds != "float":
        want = it.asarray(every_value(a)).astype("int8").astype(b)
        assert same_bits(it.asarray(every_value(a)).astype(b), want)


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_making_them(dtype):
    same(it.zeros((2, 3), dtype=dtype), dtype, np.zeros((2, 3)))
    same(it.ones(3, dtype=dtype), dtype, np.ones(3))
    same(it.full((), 1, dtype=dtype.name), dtype, 1)
    same(it.zeros_like(it.ones(2, dtype=dtype)), dtype, np.zeros(2))
    same(it.asarray([[0, 1], [1, 0]], dtype=dtype), dtype, [[0, 1], [1, 0]])
    same(it.asarray([0.0, 1.0], dtype=dtype), dtype, [0, 1])
    same(it.asarray(it.ones(2), dtype=dtype), dtype, [1, 1])
    same(it.empty((0, 3), dtype=dtype), dtype, np.zeros((0, 3)))
    assert it.asarray(1, dtype=dtype).item() == 1
    assert it.asarray([1, 0], dtype=dtype).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("number", "dtype"), [(8, "int4"), (-1, "uint4"), (2, "int2"), (4, "uint2")]
)
def test_numbers_that_do_not_fit(number, dtype):
    with pytest.raises(DTypeError, match=f"asarray: the number {number} does not fit {dtype}"):
        it.asarray([0, number], dtype=dtype)
    with pytest.raises(DTypeError, match=f"full: fill_value={number} does not fit {dtype}"):
        it.full(2, number, dtype=dtype)
    mask = it.asarray([True, False])
    with pytest.raises(DTypeError, match=f"where: x2: the number {number} does not fit {dtype}"):
        it.where(mask, it.zeros(2, dtype=dtype), number)
    with pytest.raises(DTypeError, match=r"where: x2: the number 0.5 does not fit"):
        it.where(mask, it.zeros(2, dtype=dtype), 0.5)


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_movement(dtype):
    v, x = grid(dtype)
    mask, rows = v > 0, np.asarray([2, 0])
    indices, m = it.asarray(rows), it.asarray(mask)
    lines = np.asarray([[0, 1, 2, 0]])
    for got, want in [
        (x.reshape(4, 3), v.reshape(4, 3)),
        (it.permute_dims(x, (1, 0)), v.T),
        (x.mT, v.T),
        (x[1:, ::-2], v[1:, ::-2]),
        (x[1, 2], v[1, 2]),
        (x[indices], v[rows]),
        (x[m], v[mask]),
        (it.take(x, indices, axis=1), v[:, rows]),
        (it.take_along_axis(x, it.asarray(lines), axis=0), np.take_along_axis(v, lines, 0)),
        (it.concat([x, x], axis=1), np.concatenate([v, v], 1)),
        (it.stack([x, x]), np.stack([v, v])),
        (it.broadcast_to(x[:1], (2, 1, 4)), np.broadcast_to(v[:1], (2, 1, 4))),
        (it.where(m, x, it.zeros_like(x)), np.where(mask, v, 0)),
        (it.where(m, x, 1), np.where(mask, v, 1)),
        (it.masked_fill(x, m, 0), np.where(mask, 0, v)),
        (it.flip(x, axis=0), v[::-1]),
        (it.roll(x, 1, axis=1), np.roll(v, 1, 1)),
        (it.tile(x, (2, 1)), np.tile(v, (2, 1))),
        (it.repeat(x, 2, axis=0), np.repeat(v, 2, 0)),
        (it.pad(x, 1), np.pad(v, 1)),
        (it.squeeze(it.expand_dims(x, axis=0), axis=0), v),
        (it.split(x, 2, axis=1)[1], np.split(v, 2, 1)[1]),
        (it.unstack(x)[2], v[2]),
        (it.moveaxis(x, 0, 1), v.T),
        (it.slice_update(x, x[:1, :2], (1, 1)), _updated(v, v[:1, :2])),
        (it.scatter_set(x, indices, x[:2]), _scattered(v, rows)),
        (it.embedding(indices, x), v[rows]),
        (it.asarray([[1]]).astype(dtype).to_device("numpy"), [[1]]),
    ]:
        same(got, dtype, want)


def _updated(v, part):
    out = v.copy()
    out[1:2, 1:3] = part
    return out


def _scattered(v, rows):
    out = v.copy()
    out[rows] = v[:2]
    return out


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_writing_elements(dtype):
    v, x = grid(dtype)
    x[0] = 1
    x[1, 2:] = it.asarray([1, 0], dtype=dtype)
    v[0] = 1
    v[1, 2:] = [1, 0]
    same(x, dtype, v)
    same(x.at[2].set(it.zeros(4, dtype=dtype)), dtype, np.where(np.arange(3)[:, None] == 2, 0, v))


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_equality(dtype):
    values = every_value(dtype)
    x = it.asarray(values)
    wide = values.astype(np.float32)
    np.testing.assert_array_equal((x == x).numpy(), wide == wide)
    np.testing.assert_array_equal((x != it.flip(x)).numpy(), wide != wide[::-1])
    np.testing.assert_array_equal((x == 1).numpy(), wide == 1)
    with pytest.raises(DTypeError, match=rf"equal: {dtype} and float32 have no common dtype.*cast"):
        it.equal(x, it.zeros(x.shape))


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_printing(dtype):
    text = repr(it.asarray([0, 1], dtype=dtype))
    assert f"dtype={dtype}" in text
    assert ("[0., 1.]" if dtype.holds == "float" else "[0, 1]") in text


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_promotion(dtype):
    assert it.promote_types(dtype, dtype) is dtype
    assert it.result_type(dtype, dtype, 1) is dtype
    for other in (*ALL_DTYPES, *STORAGE_DTYPES):
        if other is not dtype:
            with pytest.raises(DTypeError, match=r"have no common dtype.*cast with x.astype"):
                it.promote_types(dtype, other)
            assert not it.can_cast(dtype, other)
            assert not it.can_cast(other, dtype)
    assert it.can_cast(dtype, dtype)


@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_kinds(dtype):
    assert it.isdtype(dtype, "storage")
    assert it.isdtype(dtype, (dtype, "bool"))
    for kind in ("bool", "numeric", "integral", "real floating", "complex floating"):
        assert not it.isdtype(dtype, kind)
    assert not any(it.isdtype(d, "storage") for d in ALL_DTYPES)


def test_the_array_api_does_not_see_them():
    info = it.__array_namespace_info__()
    names = {d.name for d in STORAGE_DTYPES}
    assert not names & set(info.dtypes())
    assert not names & set(info.dtypes(kind=("numeric", "bool")))


@pytest.mark.parametrize("argument", ["floating", "integer"])
@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_they_are_no_defaults(dtype, argument):
    message = f"default_dtypes: {argument} must be .*, got {dtype}"
    with pytest.raises(DTypeError, match=message), it.default_dtypes(**{argument: dtype}):
        pass


def calls(operation, base, dtype):
    """Its samples with arrays of a storage dtype in place of those of `base`."""
    for case in cases(operation, base):
        arrays = [a.astype(dtype.dtype) if a.dtype.name == base else a for a in case.arrays]
        if any(a.dtype == dtype.dtype for a in arrays):
            yield fill_arrays(case.tree(), [it.asarray(a) for a in arrays])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [it.float8_e5m2, it.int4], ids=str)
def test_nothing_else_is_computed_in_them(dtype):
    """Every operation but those that move values says so, in an error that names the cure."""
    taken = set()
    for operation in OPERATIONS.values():
        if operation.public is None or operation.samples is None:
            continue
        for base in ("float32", "int32"):
            for args, kwargs in calls(operation, base, dtype):
                problem = refusal(operation, args, kwargs)
                if problem is None:
                    taken.add(operation.name)
                else:
                    assert dtype.name in problem
                    assert "cast" in problem
    meant = {o.name for o in OPERATIONS.values() if o.traits.storage or o.traits.kind == "movement"}
    assert taken >= ACCEPTING
    assert taken <= meant


def refusal(operation, args, kwargs):
    try:
        operation.public(*args, **kwargs)
    except DTypeError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x + x, "add"),
        (lambda x: x * 2, "multiply"),
        (lambda x: 1 / x, "divide"),
        (lambda x: -x, "negative"),
        (lambda x: it.exp(x), "exp"),
        (lambda x: it.sum(x), "sum"),
        (lambda x: it.max(x), "max"),
        (lambda x: it.sort(x), "sort"),
        (lambda x: x @ x.mT, "matmul"),
        (lambda x: x > x, "greater"),
        (lambda x: x & x, "bitwise_and"),
        (lambda x: it.linear(x, x), "linear"),
        (lambda x: it.softmax(x, axis=-1), "softmax"),
        (lambda x: it.cumulative_sum(x, axis=0), "cumulative_sum"),
        (lambda x: it.logical_not(x), "logical_not"),
        (lambda x: it.count_nonzero(x), "count_nonzero"),
        (lambda x: it.scatter_add(x, it.asarray([0]), x[:1]), "scatter_add"),
        (lambda x: it.unique_values(x), "unique"),
        (lambda x: x + it.ones((2, 2)), "add"),
    ],
)
@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_arithmetic_says_to_cast(dtype, call, name):
    with pytest.raises(DTypeError, match=rf"^\w*{name}.*{dtype}.*cast"):
        call(it.ones((2, 2), dtype=dtype))


def test_ranges_and_random_numbers_have_none():
    for dtype in STORAGE_DTYPES:
        with pytest.raises(DTypeError, match=dtype.name):
            it.arange(3, dtype=dtype)
        with pytest.raises(DTypeError, match=dtype.name):
            it.random.uniform((2,), dtype=dtype)


def test_a_cast_to_storage_is_a_constant_for_gradients():
    x = it.asarray([1.0, 2.0]).require_grad()
    stored = x.astype("float8_e4m3fn")
    grads = it.sum(stored.astype("float32") * x).backward()
    assert grads[x].tolist() == [1.0, 2.0]


def test_bits():
    x = it.asarray(np.arange(256, dtype=np.uint8))
    for dtype in FLOAT8:
        assert it.bitcast(it.bitcast(x, dtype), "uint8").tolist() == list(range(256))
    with pytest.raises(DTypeError, match=r"bitcast: .*uint8 \(8 bits\) .*int4 \(4 bits\)"):
        it.bitcast(x, "int4")


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("shape", [(8,), (7,), (3, 5), (2, 0), (0, 3), (1,)], ids=str)
def test_packing(dtype, shape):
    count = 8 // dtype.bits
    codes = np.random.default_rng(5).integers(0, 1 << dtype.bits, shape, np.uint8)
    x = it.asarray(codes.astype(dtype.dtype))
    packed = it.pack(x)
    assert packed.dtype is it.uint8
    assert packed.shape == (*shape[:-1], -(-shape[-1] // count))
    filled = np.pad(codes, [*[(0, 0)] * (len(shape) - 1), (0, -shape[-1] % count)])
    places = filled.reshape(*packed.shape, count).astype(int)
    want = sum(places[..., i] << (i * dtype.bits) for i in range(count))
    np.testing.assert_array_equal(packed.numpy(), want)
    back = it.unpack(packed, dtype, size=shape[-1])
    assert back.dtype is dtype
    assert same_bits(back, x)
    if not shape[-1] % count:
        assert it.unpack(packed, dtype).shape == shape


def test_packing_what_cannot_be_packed():
    with pytest.raises(DTypeError, match=r"pack: packs int4.*got int8, which has 8 bits"):
        it.pack(it.zeros(2, dtype="int8"))
    with pytest.raises(ShapeError, match="pack: needs at least one axis"):
        it.pack(it.zeros((), dtype="int4"))
    with pytest.raises(DTypeError, match=r"unpack: x must be uint8.*got int8"):
        it.unpack(it.zeros(2, dtype="int8"), "int4")
    with pytest.raises(ShapeError, match=r"unpack: size=5 .* take 3 bytes, .* has 2"):
        it.unpack(it.zeros(2, dtype="uint8"), "int4", size=5)


def test_dlpack_has_no_place_for_small_integers():
    with pytest.raises(BufferError, match=r"cannot export int4, .*; cast"):
        np.from_dlpack(it.ones(2, dtype="int4"))

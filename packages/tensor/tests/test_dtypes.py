"""The promotion table against the standard's, NumPy's and PyTorch's, and weak numbers."""

import asyncio
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.dtypes import (
    ALL_DTYPES,
    as_dtype,
    complex_dtype,
    default_complex,
    default_float,
    default_int,
    from_numpy_dtype,
    promote_types,
    real_dtype,
    scalar_dtype,
)
from ingle.tensor.errors import DTypeError

# The table of the Array API standard 2025.12, "type promotion rules", row by row.
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
MIXED = {
    ("int8", "uint8"): "int16", ("int8", "uint16"): "int32", ("int8", "uint32"): "int64",
    ("int16", "uint8"): "int16", ("int16", "uint16"): "int32", ("int16", "uint32"): "int64",
    ("int32", "uint8"): "int32", ("int32", "uint16"): "int32", ("int32", "uint32"): "int64",
    ("int64", "uint8"): "int64", ("int64", "uint16"): "int64", ("int64", "uint32"): "int64",
}  # fmt: skip
FLOATING = {
    ("float32", "float32"): "float32", ("float32", "float64"): "float64",
    ("float64", "float64"): "float64", ("float32", "complex64"): "complex64",
    ("float32", "complex128"): "complex128", ("float64", "complex64"): "complex128",
    ("float64", "complex128"): "complex128", ("complex64", "complex64"): "complex64",
    ("complex64", "complex128"): "complex128", ("complex128", "complex128"): "complex128",
}  # fmt: skip


def standard_table():
    yield "bool", "bool", "bool"
    for kinds in (SIGNED, UNSIGNED):
        for (i, a), (j, b) in itertools.product(enumerate(kinds), repeat=2):
            yield a, b, kinds[max(i, j)]
    for (a, b), result in (MIXED | FLOATING).items():
        yield a, b, result


@pytest.mark.parametrize(("a", "b", "expected"), list(standard_table()))
def test_the_table_of_the_standard(a, b, expected):
    assert promote_types(as_dtype(a), as_dtype(b)).name == expected
    assert promote_types(as_dtype(b), as_dtype(a)).name == expected


def pairs():
    return itertools.product(ALL_DTYPES, repeat=2)


@pytest.mark.parametrize(("a", "b"), list(pairs()), ids=lambda d: d.name)
def test_promotion_is_symmetric_and_a_tensor_obeys_it(a, b):
    expected = promote_types(a, b)
    assert promote_types(b, a) is expected
    assert promote_types(a, a) is a
    x, y = it.zeros(2, dtype=a), it.zeros(2, dtype=b)
    assert it.equal(x, y).dtype is it.bool_
    if expected is not it.bool_:
        assert it.add(x, y).dtype is expected


def test_promotion_agrees_with_numpy_where_the_kinds_are_the_same():
    """NumPy widens floats for integers and has no default float; within a kind it agrees."""
    plain = [d for d in ALL_DTYPES if d.name != "bfloat16"]
    for a, b in itertools.product(plain, repeat=2):
        mixed = {a.kind, b.kind} in ({"signed", "unsigned"}, {"float", "complex"})
        if {a.name, b.name} >= {"uint64"} and mixed:
            continue
        if a.kind == b.kind or mixed or it.bool_ in (a, b):
            want = np.promote_types(a.dtype, b.dtype)
            assert promote_types(a, b).dtype == want, (a, b)


def test_promotion_agrees_with_torch():
    torch = pytest.importorskip("torch")
    for a, b in pairs():
        unsigned = {"uint16", "uint32", "uint64"} & {a.name, b.name}
        if unsigned:
            continue  # PyTorch has no promotion for most pairs of these
        want = str(torch.promote_types(getattr(torch, a.name), getattr(torch, b.name)))
        half_with_complex = {a.kind, b.kind} == {"float", "complex"} and 2 in (
            a.itemsize, b.itemsize,
        )  # fmt: skip
        if not half_with_complex:
            assert f"torch.{promote_types(a, b).name}" == want, (a, b)


def test_beyond_the_standard():
    assert promote_types(it.bfloat16, it.float16) is it.float32
    assert promote_types(it.bfloat16, it.float32) is it.float32
    assert promote_types(it.int64, it.bfloat16) is it.bfloat16
    assert promote_types(it.uint64, it.int8) is it.float32
    with it.default_dtypes(floating="float64"):
        assert promote_types(it.uint64, it.int8) is it.float64


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda d: d.name)
def test_numbers_are_weak(dtype):
    assert scalar_dtype(True, dtype, "f") is dtype
    whole, real = scalar_dtype(1, dtype, "f"), scalar_dtype(1.0, dtype, "f")
    both = scalar_dtype(1j, dtype, "f")
    assert whole is (default_int() if dtype is it.bool_ else dtype)
    assert real is (dtype if dtype.is_inexact else default_float())
    assert both.is_complex
    assert both is (dtype if dtype.is_complex else complex_dtype(real))


@pytest.mark.parametrize(
    ("number", "dtype"), [(256, "uint8"), (-1, "uint8"), (128, "int8"), (2**63, "int64")]
)
def test_a_number_that_does_not_fit(number, dtype):
    with pytest.raises(DTypeError, match=rf"add: x2: the number {number} does not fit {dtype}"):
        it.ones(2, dtype=dtype) + number


def test_a_float_never_widens_a_tensor():
    for dtype in (it.float16, it.bfloat16, it.float32, it.complex64):
        assert (it.ones(2, dtype=dtype) * 1e-3).dtype is dtype
        assert (2.0 - it.ones(2, dtype=dtype)).dtype is dtype


def test_defaults():
    assert (default_float(), default_int(), default_complex()) == (
        it.float32, it.int64, it.complex64,
    )  # fmt: skip
    assert it.asarray([1.5]).dtype is it.float32
    assert it.asarray([1]).dtype is it.int64
    assert it.asarray([1j]).dtype is it.complex64
    with it.default_dtypes(floating=it.float64, integer="int32"):
        assert it.asarray([1.5]).dtype is it.float64
        assert it.asarray([1]).dtype is it.int32
        assert it.asarray([1j]).dtype is it.complex128
        assert it.zeros(1).dtype is it.float64
    assert it.zeros(1).dtype is it.float32


MADE = {
    "zeros": lambda: it.zeros(2),
    "full": lambda: it.full(2, 1.5),
    "asarray": lambda: it.asarray([0.5]),
    "linspace": lambda: it.linspace(0, 1, 3),
    "eye": lambda: it.eye(2),
    "uniform": lambda: it.random.uniform((2,)),
    "division of integers": lambda: it.ones(2, dtype="int8") / 2,
    "a float beside integers": lambda: it.ones(2, dtype="int16") + 0.5,
    "the exponential of integers": lambda: it.exp(it.ones(2, dtype="int32")),
    "uint64 with int8": lambda: it.ones(2, dtype="uint64") + it.ones(2, dtype="int8"),
    "a window": lambda: it.hann_window(4),
}
COUNTED = {
    "arange": lambda: it.arange(3),
    "full": lambda: it.full(2, 7),
    "asarray": lambda: it.asarray([1]),
    "a number beside bools": lambda: it.asarray([True]) + 1,
    "count_nonzero": lambda: it.count_nonzero(it.zeros(2)),
    "sums of small integers": lambda: it.sum(it.ones(2, dtype="int8")),
    "sums of bools": lambda: it.sum(it.ones(2, dtype="bool")),
    "argmax": lambda: it.argmax(it.ones(2)),
}


@pytest.mark.parametrize("name", MADE)
def test_the_default_float_is_the_contexts(name):
    for dtype in (it.float64, it.float16, it.bfloat16, it.float32):
        with it.default_dtypes(floating=dtype):
            assert MADE[name]().dtype is dtype
    assert MADE[name]().dtype is it.float32


@pytest.mark.parametrize("name", COUNTED)
def test_the_default_integer_is_the_contexts(name):
    for dtype in (it.int32, it.int64):
        with it.default_dtypes(integer=dtype):
            assert COUNTED[name]().dtype is dtype
    assert COUNTED[name]().dtype is it.int64


def test_defaults_nest_and_end_with_the_block():
    with it.default_dtypes(floating="float64", integer="int32"):
        with it.default_dtypes(floating="bfloat16"):
            assert (it.zeros(1).dtype, it.arange(1).dtype) == (it.bfloat16, it.int32)
        with pytest.raises(RuntimeError, match="oops"), it.default_dtypes(floating="float16"):
            raise RuntimeError("oops")
        info = it.__array_namespace_info__().default_dtypes()
        assert (info["real floating"], info["integral"]) == (it.float64, it.int32)
        assert info["complex floating"] is it.complex128
    assert (it.zeros(1).dtype, it.arange(1).dtype) == (it.float32, it.int64)


def test_defaults_are_those_of_one_thread_or_task():
    async def inside(dtype):
        with it.default_dtypes(floating=dtype):
            await asyncio.sleep(0)
            return it.zeros(1).dtype

    async def both():
        return await asyncio.gather(inside("float64"), inside("float16"))

    with it.default_dtypes(floating="bfloat16"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: it.zeros(1).dtype).result() is it.float32
        assert asyncio.run(both()) == [it.float64, it.float16]


@pytest.mark.parametrize(("argument", "value"), [("floating", "int32"), ("integer", "float32")])
def test_defaults_of_the_wrong_kind(argument, value):
    message = rf"{argument} must be .*, got {value}"
    with pytest.raises(DTypeError, match=message), it.default_dtypes(**{argument: value}):
        pass


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda d: d.name)
def test_names_kinds_and_copies(dtype):
    assert as_dtype(dtype.name) is dtype
    assert as_dtype(dtype.dtype) is dtype
    assert from_numpy_dtype(dtype.dtype) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert dtype.itemsize == dtype.dtype.itemsize
    assert repr(dtype) == dtype.name
    assert it.zeros(3, dtype=dtype).nbytes == 3 * dtype.itemsize


def test_foreign_byte_orders_are_read():
    x = it.asarray(np.asarray([1, 2], ">i4"))
    assert x.dtype is it.int32
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize("value", ["float31", object, "datetime64[s]", 7, "U3"])
def test_things_that_are_no_dtype(value):
    with pytest.raises(DTypeError, match="float32"):
        as_dtype(value)


def test_real_and_complex_partners():
    assert real_dtype(it.complex64) is it.float32
    assert real_dtype(it.complex128) is it.float64
    assert real_dtype(it.bfloat16) is it.bfloat16
    assert complex_dtype(it.float16) is it.complex64
    assert complex_dtype(it.float64) is it.complex128


def test_a_dtype_equals_its_name_and_numpys_type() -> None:
    for dtype in (it.float32, it.int8, it.bool, it.complex128, it.bfloat16):
        own = dtype.dtype.type
        assert dtype == own
        assert own == dtype
        assert dtype == dtype.name
        assert dtype.name == dtype
        assert dtype == dtype.dtype
        assert dtype.dtype == dtype
        assert dtype in (own,)
        for other in (it.float64, np.float64, "float64", np.dtype("f8"), None, 3, float):
            assert dtype != other
        assert {dtype: 1}[dtype] == 1
    assert it.float32 != it.float64
    assert it.int4 != it.int8


@pytest.mark.parametrize("floating", ["float32", "float64"])
def test_names_of_pythons_types_mean_the_types(floating):
    with it.default_dtypes(floating=floating):
        for kind in (bool, int, float, complex):
            assert as_dtype(kind.__name__) is as_dtype(kind)
            assert it.ones(1).astype(kind.__name__).dtype is as_dtype(kind)
        assert it.zeros(1, dtype="float").dtype is as_dtype(floating)


def test_dtypes_of_pytorch_are_those_of_the_same_name():
    torch = pytest.importorskip("torch")
    for dtype in ALL_DTYPES:
        theirs = getattr(torch, dtype.name)
        assert dtype == theirs
        assert theirs == dtype
        assert dtype in (theirs,)
        assert not dtype != theirs  # noqa: SIM202 (the operator is what is tested)
        assert as_dtype(theirs) is dtype
        assert [d for d in ALL_DTYPES if d == theirs] == [dtype]
    assert it.ones(2).to(torch.float64).dtype is it.float64
    with pytest.raises(DTypeError, match=r"torch\.qint8 is no dtype"):
        as_dtype(torch.qint8)
    assert it.float32 != torch.qint8

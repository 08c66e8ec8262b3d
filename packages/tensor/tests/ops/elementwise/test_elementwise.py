"""Elementwise functions: edge values, dtypes, promotion, gradients."""

import math

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError

EDGES = np.asarray(
    [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-30, 3e38, np.inf, -np.inf, np.nan], np.float32
)
UNARY = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin,
    "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos,
    "cosh": np.cosh, "exp": np.exp, "expm1": np.expm1, "floor": np.floor,
    "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan, "log": np.log,
    "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "negative": np.negative,
    "positive": np.positive, "reciprocal": np.reciprocal, "round": np.round, "sign": np.sign,
    "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square, "tan": np.tan,
    "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip


def floor_divide(x1, x2):
    """NumPy's, but where one number is infinite: there the standard rounds the quotient down."""
    infinite = np.isinf(x1) | np.isinf(x2)
    return np.where(infinite, np.floor(np.divide(x1, x2)), np.floor_divide(x1, x2))


BINARY = {
    "add": np.add, "atan2": np.arctan2, "copysign": np.copysign, "divide": np.divide,
    "equal": np.equal, "floor_divide": floor_divide, "greater": np.greater,
    "greater_equal": np.greater_equal, "hypot": np.hypot, "less": np.less,
    "less_equal": np.less_equal, "logaddexp": np.logaddexp, "maximum": np.maximum,
    "minimum": np.minimum, "multiply": np.multiply, "nextafter": np.nextafter,
    "not_equal": np.not_equal, "remainder": np.remainder, "subtract": np.subtract,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_edges(name, road):
    with np.errstate(all="ignore"):
        expected = UNARY[name](EDGES)
    result = getattr(it, name)(it.asarray(EDGES)).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert result.dtype == expected.dtype


@pytest.mark.parametrize("name", BINARY)
def test_binary_edges(name, road):
    a, b = EDGES[:, None], EDGES[None, :]
    with np.errstate(all="ignore"):
        expected = BINARY[name](a, b)
    result = getattr(it, name)(it.asarray(a), it.asarray(b)).numpy()
    if name == "copysign":
        # The sign of NaN means nothing, and Ingle's body does not look at it.
        expected, result = np.nan_to_num(expected), np.nan_to_num(result)
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert result.dtype == expected.dtype


HALF = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sqrt", "rsqrt", "sin", "log1p"])
def test_half_types_are_rounded_once(name, dtype):
    scipy_special = pytest.importorskip("scipy.special")
    wide = {"erf": scipy_special.erf, "rsqrt": lambda v: 1 / np.sqrt(v)}.get(name, UNARY.get(name))
    x = np.linspace(0.01, 4, 999).astype(HALF[dtype])
    result = getattr(it, name)(it.asarray(x)).numpy()
    expected = wide(x.astype(np.float64))
    assert result.dtype == x.dtype
    eps = float(ml_dtypes.finfo(x.dtype).eps)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=0.51 * eps, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf(dtype):
    scipy_special = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-7, 7, 20000), rng.uniform(-1.1, 1.1, 20000)]).astype(dtype)
    expected = scipy_special.erf(x.astype(np.float64))
    unit = np.spacing(np.abs(expected).astype(dtype)).astype(np.float64)
    off = np.abs(it.erf(it.asarray(x)).numpy().astype(np.float64) - expected) / unit
    # In float64 SciPy's own is up to 3 ulp off.
    assert off.max() <= (2 if dtype == "float32" else 4)
    ends = it.erf(it.asarray([0.0, -0.0, math.inf, -math.inf, math.nan], dtype=dtype)).numpy()
    np.testing.assert_array_equal(ends, [0.0, -0.0, 1.0, -1.0, math.nan])
    assert np.signbit(ends[1])


def test_integers_keep_their_dtype_where_the_standard_says_so():
    x = it.asarray(np.asarray([-3, 0, 5], np.int8))
    for function in (it.abs, it.sign, it.square, it.floor, it.ceil, it.round, it.trunc):
        assert function(x).dtype is it.int8
    assert it.sign(x).tolist() == [-1, 0, 1]
    assert it.exp(x).dtype is it.float32
    assert (x / 2).dtype is it.float32
    assert it.atan2(x, x).dtype is it.float32
    with it.default_dtypes(floating=it.float64):
        assert it.sqrt(x).dtype is it.float64


def test_integer_division():
    a = np.asarray([7, -7, 7, -7, 3], np.int32)
    b = np.asarray([2, 2, -2, -2, 0], np.int32)
    x, y = it.asarray(a), it.asarray(b)
    assert (x // y).tolist() == [3, -4, -4, 3, 0]
    assert (x % y).tolist() == [1, 1, -1, -1, 0]
    assert it.divide(x, y).tolist() == [3.5, -3.5, -3.5, 3.5, math.inf]


def test_powers():
    x = np.asarray([0.5, 1.5, -2.0])
    t = it.asarray(x)
    for exponent in (0, 1, 2, 3, 4, 5, -1, -2, 2.0, -3.0):
        np.testing.assert_allclose((t**exponent).numpy(), x ** float(exponent), rtol=1e-15)
    positive = it.asarray(np.abs(x))
    for exponent in (0.5, -0.5, 1.7):
        np.testing.assert_allclose((positive**exponent).numpy(), np.abs(x) ** exponent, rtol=1e-15)
    np.testing.assert_allclose((2.0**t).numpy(), 2.0**x, rtol=1e-15)
    assert (it.asarray([2, 3]) ** 3).tolist() == [8, 27]
    assert (it.asarray([4, 9]) ** 0.5).tolist() == [2.0, 3.0]
    assert it.pow(it.asarray([1, -1, 2, 0]), it.asarray([-1, -3, -1, 2])).tolist() == [1, -1, 0, 0]
    with pytest.raises(ArgumentError, match="cast x1 first"):
        it.asarray([2, 3]) ** -1


def test_clip():
    x = it.asarray([-1.0, 0.5, 2.0, math.nan])
    np.testing.assert_array_equal(it.clip(x, 0, 1).numpy(), [0, 0.5, 1, math.nan])
    assert it.clip(x, max=1).tolist()[:3] == [-1.0, 0.5, 1.0]
    assert it.clip(x, it.asarray([[0.0], [1.0]])).shape == (2, 4)
    assert it.clip(it.asarray([1, 5, 9]), 2, 6).dtype is it.int64
    assert it.clip(it.asarray([1, 5, 9]), min=3).tolist() == [3, 5, 9]
    assert it.clip(it.asarray([5.0]), 3, 1).tolist() == [1.0]
    assert it.clip(x).numpy() is not None
    with pytest.raises(DTypeError, match="real numbers"):
        it.clip(it.asarray([1j]), 0)


def test_bits():
    a, b = np.asarray([12, 7, -1], np.int32), np.asarray([10, 3, 2], np.int32)
    x, y = it.asarray(a), it.asarray(b)
    for name in ("and", "or", "xor", "left_shift", "right_shift"):
        expected = getattr(np, f"bitwise_{name}")(a, b)
        np.testing.assert_array_equal(getattr(it, f"bitwise_{name}")(x, y).numpy(), expected)
    np.testing.assert_array_equal(it.bitwise_invert(x).numpy(), ~a)
    flags = it.asarray([True, False])
    assert it.bitwise_invert(flags).tolist() == [False, True]
    with pytest.raises(DTypeError, match="bitwise_and: x1 and x2 must be"):
        it.bitwise_and(it.asarray([1.0]), it.asarray([2.0]))


def test_logic_takes_any_dtype(road):
    x, y = it.asarray([0.0, 2.0, math.nan]), it.asarray([1, 0, 1])
    assert it.logical_and(x, y).tolist() == [False, False, True]
    assert it.logical_or(x, 0).tolist() == [False, True, True]
    assert it.logical_xor(True, y).tolist() == [False, True, False]
    assert it.logical_not(x).tolist() == [True, False, False]
    with pytest.raises(OperandError, match="logical_and"):
        it.logical_and(True, 2)


def test_angles_of_real_numbers():
    for dtype in ("float32", "float64", "int64"):
        x = np.asarray([2, -3, 0, -1]).astype(dtype)
        if dtype[0] == "f":
            x = np.concatenate([x, np.asarray([-0.0, np.inf, -np.inf, np.nan], dtype)])
        found = it.angle(it.asarray(x)).numpy()
        assert found.dtype == ("float64" if dtype == "float64" else "float32")
        np.testing.assert_array_equal(found, np.angle(x).astype(found.dtype))
    x = it.asarray([2.0, -3.0, 0.0]).require_grad()
    assert it.angle(x).sum().backward()[x].tolist() == [0.0, 0.0, 0.0]


def test_complex_parts():
    z = np.asarray([1 + 2j, -3j, -2.0], np.complex64)
    x = it.asarray(z)
    np.testing.assert_array_equal(it.real(x).numpy(), z.real)
    np.testing.assert_array_equal(it.imag(x).numpy(), z.imag)
    np.testing.assert_array_equal(it.conj(x).numpy(), z.conj())
    np.testing.assert_allclose(it.angle(x).numpy(), np.angle(z), rtol=1e-6)
    np.testing.assert_allclose(abs(x).numpy(), np.abs(z), rtol=1e-6)
    np.testing.assert_allclose(it.sign(x).numpy(), z / np.abs(z), rtol=1e-6)
    assert abs(x).dtype is it.float32
    assert it.imag(it.asarray([1.0])).tolist() == [0.0]
    with pytest.raises(DTypeError, match=r"real: .* must be numbers"):
        it.real(it.asarray([True]))


def test_strided_empty_and_0d_inputs():
    base = np.arange(24.0).reshape(2, 3, 4)
    x = it.asarray(base)
    turned = it.permute_dims(x, (2, 0, 1))
    expected = base.transpose(2, 0, 1)
    np.testing.assert_array_equal((turned + turned).numpy(), expected * 2)
    np.testing.assert_allclose(it.flip(x, axis=1).exp().numpy(), np.exp(base[:, ::-1]), 4e-16)
    wide = it.broadcast_to(it.asarray([1.0, 2.0]), (3, 2))
    np.testing.assert_array_equal((wide * wide).numpy(), [[1, 4]] * 3)
    assert it.tanh(it.zeros((0, 3))).shape == (0, 3)
    assert it.maximum(it.zeros((0, 1)), it.zeros((1, 3))).shape == (0, 3)
    assert it.exp(it.asarray(0.0)).shape == ()
    with pytest.raises(ShapeError, match="do not broadcast"):
        it.maximum(it.zeros((2, 3)), it.zeros((4,)))
    for bad in ("exp", "abs", "isnan"):
        with pytest.raises(OperandError, match=f"{bad}: x must be a tensor"):
            getattr(it, bad)([1.0])


RANGES = {
    "acosh": (1.1, 3), "acos": (-0.9, 0.9), "asin": (-0.9, 0.9), "atanh": (-0.9, 0.9),
    "log": (0.1, 3), "log1p": (-0.9, 3), "log2": (0.1, 3), "log10": (0.1, 3), "sqrt": (0.1, 3),
    "rsqrt": (0.1, 3), "reciprocal": (0.3, 3), "tan": (-1, 1),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp",
        "expm1", "log", "log10", "log1p", "log2", "negative", "reciprocal", "rsqrt", "sin",
        "sinh", "sqrt", "square", "tan", "tanh",
    ],
)  # fmt: skip
def test_unary_gradients(name, road, like_torch):
    torch = pytest.importorskip("torch")
    low, high = RANGES.get(name, (-2, 2))
    x = np.random.default_rng(0).uniform(low, high, (3, 5))
    like_torch(getattr(it, name), getattr(torch, name), [x])


@pytest.mark.parametrize(
    "name",
    ["add", "atan2", "divide", "hypot", "logaddexp", "maximum", "minimum", "multiply", "pow",
     "remainder", "subtract"],
)  # fmt: skip
def test_binary_gradients(name, road, like_torch):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(0.5, 3, (4, 1, 3)), rng.uniform(0.5, 3, (5, 3))]
    like_torch(getattr(it, name), getattr(torch, name), arrays)


def _gradient(function, value, dtype="float64"):
    x = it.asarray(value, dtype=dtype).require_grad()
    return function(x).sum().backward()[x].tolist()


def test_gradients_at_edges():
    assert _gradient(it.abs, [0.0, -2.0]) == [0.0, -1.0]
    assert _gradient(lambda x: it.maximum(x, 1.0), [0.0, 1.0, 2.0]) == [0.0, 0.5, 1.0]
    assert _gradient(lambda x: it.minimum(1.0, x), [0.0, 1.0, 2.0]) == [1.0, 0.5, 0.0]
    assert _gradient(lambda x: it.clip(x, 0, 1), [-1.0, 0.0, 1.0, 2.0]) == [0.0, 1.0, 1.0, 0.0]
    assert _gradient(lambda x: x ** it.zeros_like(x), [0.0, 2.0]) == [0.0, 0.0]
    assert _gradient(lambda x: it.asarray(0.0, dtype="float64") ** x, [1.0, 2.0]) == [0.0, 0.0]
    assert _gradient(lambda x: 0.0**x, [1.0, 2.0]) == [0.0, 0.0]
    assert _gradient(lambda x: x**2, [0.0]) == [0.0]
    assert _gradient(lambda x: it.hypot(x, x), [0.0]) == [0.0]
    both = _gradient(lambda x: it.logaddexp(x, x), [-math.inf, math.inf, 0.0])
    assert both == [1.0, 1.0, 1.0]


def test_gradients_of_both_bounds_of_clip():
    x = it.asarray([-1.0, 0.5, 3.0])
    low, high = it.asarray(0.0).require_grad(), it.asarray(1.0).require_grad()
    grads = it.clip(x, low, high).sum().backward()
    assert (grads[low].item(), grads[high].item()) == (1.0, 1.0)


def test_complex_gradients(like_torch):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    re, im = rng.uniform(0.3, 1.5, (2, 3)), rng.uniform(0.3, 1.5, (2, 3))
    for name in ("abs", "exp", "log", "sqrt", "tanh", "sin", "square", "reciprocal", "sign"):
        theirs = torch.sgn if name == "sign" else getattr(torch, name)
        function = getattr(it, name)

        def ours(a, b, function=function):
            out = function(a + b * 1j)
            return it.real(out) * 2.0 + it.imag(out)

        def expected(a, b, theirs=theirs):
            out = theirs(torch.complex(a, b))
            return out * 2.0 if not out.is_complex() else out.real * 2.0 + out.imag

        like_torch(ours, expected, [re, im])


def test_gradient_of_a_complex_leaf_is_pytorchs():
    torch = pytest.importorskip("torch")
    z = np.asarray([1 + 2j, -0.5 + 1j])
    x, t = it.asarray(z).require_grad(), torch.tensor(z, requires_grad=True)
    loss = (abs(x * x) + it.imag(it.conj(x)) * it.real(x) + it.angle(x)).sum()
    (abs(t * t) + t.conj().imag * t.real + t.angle()).sum().backward()
    np.testing.assert_allclose(loss.backward()[x].numpy(), t.grad.numpy(), rtol=1e-12)

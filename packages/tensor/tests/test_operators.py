"""Operators and methods of tensors and cells."""

import operator
import warnings

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import DTypeError, OperandError

REAL = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
IN_PLACE = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
    operator.imod, operator.ipow, operator.imatmul, operator.iand, operator.ior, operator.ixor,
    operator.ilshift, operator.irshift,
]  # fmt: skip


@pytest.fixture(params=["tensor", "cell"])
def make(request):
    return it.asarray if request.param == "tensor" else lambda a: it.Cell(it.asarray(a))


@pytest.mark.parametrize("op", REAL, ids=lambda op: op.__name__)
def test_real_operators(op, make):
    a, b = np.asarray([[1.5, 2.0, 3.0]]), np.asarray([[2.0], [1.5]])
    x, y = make(a), make(b)
    np.testing.assert_allclose(op(x, y).numpy(), op(a, b), rtol=1e-15)
    np.testing.assert_allclose(op(x, 2).numpy(), op(a, 2), rtol=1e-15)
    np.testing.assert_allclose(op(2.5, y).numpy(), op(2.5, b), rtol=1e-15)
    np.testing.assert_allclose(op(it.asarray(a), y).numpy(), op(a, b), rtol=1e-15)


@pytest.mark.parametrize("op", BITS, ids=lambda op: op.__name__)
def test_bit_operators(op, make):
    a, b = np.asarray([12, 7, 1]), np.asarray([3, 2, 1])
    x, y = make(a), make(b)
    np.testing.assert_array_equal(op(x, y).numpy(), op(a, b))
    np.testing.assert_array_equal(op(x, 2).numpy(), op(a, 2))
    np.testing.assert_array_equal(op(5, y).numpy(), op(5, b))


def test_unary_operators(make):
    a = np.asarray([1, -2, 3])
    x = make(a)
    for op in (operator.neg, operator.pos, operator.abs, operator.invert):
        np.testing.assert_array_equal(op(x).numpy(), op(a))
    flags = make(np.asarray([True, False]))
    assert (~flags).tolist() == [False, True]
    assert (flags & True).tolist() == [True, False]


def test_matmul(make):
    a = np.arange(6.0).reshape(2, 3)
    x = make(a)
    np.testing.assert_array_equal((x @ x.T).numpy(), a @ a.T)


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.__name__)
def test_cells_refuse_in_place_operators(op):
    cell = it.Cell(it.ones(3))
    with pytest.raises(OperandError, match=r"write `cell\.value = cell .* x`"):
        op(cell, 1)
    assert cell.value.tolist() == [1.0, 1.0, 1.0]


def test_in_place_operators_rebind_a_tensor():
    x = it.ones(2)
    same, other = x, +x
    x += 1
    x *= 3.0
    assert same is x
    assert x.tolist() == [6.0, 6.0]
    assert other.tolist() == [1.0, 1.0]


def test_numbers_are_weak():
    half = it.ones(2, dtype=it.float16)
    assert (half * 1e-3).dtype is it.float16
    assert (2 - half).dtype is it.float16
    assert (half > 0.5).dtype is it.bool
    assert (it.asarray([1, 2]) * 0.5).dtype is it.float32
    assert (it.asarray([True]) + 1).dtype is it.int64
    assert (it.asarray([1.0]) * 1j).dtype is it.complex64
    with pytest.raises(DTypeError, match="does not fit uint8"):
        it.asarray(np.asarray([1], np.uint8)) + 300


@pytest.mark.parametrize("make", [lambda x: x, it.Cell], ids=["tensor", "cell"])
def test_strangers(make):
    x = make(it.ones(2))
    with pytest.raises(OperandError, match="asarray"):
        x + np.ones(2)
    with pytest.raises(OperandError, match="asarray"):
        np.ones(2) + x
    with pytest.raises((TypeError, OperandError)):
        x + "a"
    assert (x == None) is False  # noqa: E711 (what None does)
    assert (x != "a") is True

    class Stranger:
        def __radd__(self, other):
            return "theirs"

        def __gt__(self, other):
            return "greater"

    assert x + Stranger() == "theirs"
    assert (x < Stranger()) == "greater"


METHODS = [
    "abs", "all", "any", "argmax", "argmin", "argsort", "conj", "cos", "cumulative_sum", "erf",
    "exp", "log", "logsumexp", "max", "mean", "min", "prod", "round", "rsqrt", "sign", "sin",
    "softmax", "sort", "sqrt", "square", "std", "sum", "tanh", "var",
]  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_the_functions(name, make):
    a = np.asarray([0.5, 2.0, 1.0])
    expected = getattr(it, name)(it.asarray(a)).numpy()
    np.testing.assert_array_equal(getattr(make(a), name)().numpy(), expected)


def test_methods_with_arguments(make):
    x = make(np.asarray([[3.0, 1.0, 2.0]]))
    assert x.clip(1.5, 2.5).tolist() == [[2.5, 1.5, 2.0]]
    assert x.topk(1)[0].tolist() == [[3.0]]
    assert x.cumulative_prod(axis=1).tolist() == [[3.0, 3.0, 6.0]]
    assert x.sum(axis=0, keepdims=True).shape == (1, 3)
    assert x.astype("int32").dtype is it.int32


@pytest.mark.parametrize("other", [[1, 2], (1, 2), "a", b"a"])
def test_sequences_are_not_repeated_by_a_tensor(other):
    for x in (it.asarray(2), it.asarray([2.0]), it.Cell(it.asarray(2))):
        with pytest.raises(OperandError, match=r"x2 must be a tensor.*asarray\(x2\)"):
            x * other
        with pytest.raises(OperandError, match=r"x1 must be a tensor.*asarray\(x1\)"):
            other * x
    assert it.Cell(2) * other == 2 * other


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "coo_matrix", "lil_array"])
def test_sparse_matrices_of_scipy_are_refused_with_what_to_write(kind, make):
    """SciPy's own operator would read the values, or take the wrong `transpose` of the tensor."""
    sparse = pytest.importorskip("scipy.sparse")
    s, x = getattr(sparse, kind)(np.eye(2)), make(np.ones((2, 2)))
    signs = ["add", "sub", "mul", "truediv", "matmul", "eq", "ne", "lt", "ge"]
    for name in signs:
        with pytest.raises(OperandError, match=r"x2 must be .* asarray\(x2\.toarray\(\)\)"):
            getattr(operator, name)(x, s)
    with pytest.raises(OperandError, match=r"asarray\(x1\.toarray\(\)\)"):
        it.add(s, x)
    with pytest.raises(OperandError, match=r"give its toarray\(\)"):
        it.asarray(s)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_a_sparse_matrix_times_tensors_is_scipys_product(dtype, make):
    sparse = pytest.importorskip("scipy.sparse")
    a = np.asarray([[1, 2], [0, 3]], dtype)
    for values in (np.asarray([5, 7], dtype), np.asarray([[5, 7], [1, 2]], dtype)):
        product = sparse.csr_array(a) @ it.asarray(values)
        assert product.dtype == dtype
        np.testing.assert_array_equal(product, a @ values)


def test_in_is_whether_any_element_is_equal(make):
    """As in NumPy and PyTorch: Python alone would compare rows, and ask them for one truth."""
    x = make(np.asarray([[1.0, 2.0], [3.0, 4.0]]))
    assert 3 in x
    assert 5 not in x
    assert it.asarray([3.0, 0.0]) in x
    assert it.asarray([2.0, 1.0]) not in x
    assert 0 not in make(np.zeros(0))
    assert 2 in make(np.asarray(2))
    with pytest.raises(OperandError, match="equal: x2 must be a tensor, got str"):
        "a" in x  # noqa: B015 (it raises)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("float32", 1e300), ("float32", -1e39), ("float16", 70_000), ("complex64", 1e300 + 1j)],
)
def test_a_number_beyond_a_dtype_is_infinite_without_a_warning(dtype: str, number: complex) -> None:
    x = it.asarray([1, 2], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [x + number, it.where(x == 1, x, number)[1:]]
    assert all(np.isinf(np.asarray(y)).all() for y in results)

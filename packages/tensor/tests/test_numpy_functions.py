"""NumPy's functions on tensors and cells: operations where there are such, advice elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError

X = np.array([[0.25, 0.5], [0.75, 1.0]], np.float32)
UFUNCS = {u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc)}


WITHOUT = {
    "float_power", "frexp", "modf", "ldexp", "cbrt", "spacing", "logaddexp2", "isnat",
    "bitwise_count", "matvec", "vecmat",
}  # fmt: skip


@pytest.mark.parametrize("name", UFUNCS)
def test_a_universal_function_is_the_operation_or_says_what_to_write(name: str) -> None:
    ufunc, computed = UFUNCS[name], 0
    for dtype in (np.float32, np.int32, np.bool_):
        a = (X * 4).astype(dtype)
        x = it.asarray(a)
        try:
            got: Any = ufunc(*[x] * ufunc.nin)
        except (ArgumentError, DTypeError) as error:
            assert len(str(error)) > 20, name  # noqa: PT017
            continue
        computed += 1
        with np.errstate(all="ignore"):
            both = [got, ufunc(*[a] * ufunc.nin)]
        for g, e in zip(*(both if ufunc.nout > 1 else [[v] for v in both]), strict=True):
            assert isinstance(g, it.Tensor)
            # Of integers some give other dtypes here: NumPy has float16, and 1 / 2 is 0.
            if g.numpy().dtype == e.dtype:
                np.testing.assert_allclose(g.numpy(), e, rtol=2e-6, atol=1e-6)
            else:
                assert dtype is not np.float32
    assert bool(computed) != (name in WITHOUT)


def test_gradients_go_through_them() -> None:
    from ingle.autodiff import grad

    x = it.asarray(X)
    np.testing.assert_allclose(grad(lambda x: it.sum(np.exp(x)))(x).numpy(), np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(np.sin(it.Cell(x)).numpy(), np.sin(X), rtol=1e-6)
    assert np.sqrt(it.Cell(4.0)) == 2.0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda x: np.add(X, x), r"asarray\(x1\)"),
        (lambda x: np.add(X.copy(), 1, out=x), "tensors never change"),
        (lambda x: np.add(x, x, out=X.copy()), r"x\.numpy\(\)"),
        (lambda x: np.add.reduce(x), r"it\.sum\(x\)"),
        (lambda x: np.add(x, x, where=X > 0), r"no where=.*it\.where"),
        (lambda x: np.spacing(x), r"np\.spacing\(x\.numpy\(\)\)"),
        (lambda x: it.where(x > 0), r"write nonzero\(condition\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_what_to_write(call: Callable[[Any], Any], told: str) -> None:
    with pytest.raises((ArgumentError, OperandError), match=told):
        call(it.asarray(X))


def test_functions_that_ask_for_methods_give_tensors() -> None:
    x = it.asarray(X)
    calls: list[Callable[[Any], Any]] = [
        lambda x: np.clip(x, 0.3, 0.8), lambda x: np.round(x, 1), lambda x: np.mean(x, axis=1),
    ]  # fmt: skip
    for call in calls:
        got = call(x)
        assert isinstance(got, it.Tensor)
        np.testing.assert_allclose(got.numpy(), call(X), rtol=1e-6)


@pytest.mark.slow
def test_divmod_is_quotient_and_remainder() -> None:
    a, b = np.array([7.0, -7.0, 7.5]), np.array([2.0, 2.0, -2.0])
    x, y = it.asarray(a), it.asarray(b)
    for got, expected in (
        (divmod(x, y), divmod(a, b)), (divmod(x, 2), divmod(a, 2)), (divmod(9, y), divmod(9, b)),
        (divmod(it.Cell(x), y), divmod(a, b)),
    ):  # fmt: skip
        for g, e in zip(got, expected, strict=True):
            assert g.numpy().tolist() == e.tolist()
    assert divmod(it.Cell(7), 2) == (3, 1)


def test_positions_are_a_tuple_that_knows_pytorchs_rows() -> None:
    found = it.nonzero(it.asarray([[0, 1], [2, 0]]))
    assert isinstance(found, tuple)
    assert [i.tolist() for i in found] == [[0, 1], [1, 0]]
    with pytest.raises(AttributeError, match=r"it\.stack\(it\.nonzero\(x\), axis=-1\)"):
        found.squeeze()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'frobnicate'$"):
        found.frobnicate  # type: ignore[attr-defined]  # noqa: B018

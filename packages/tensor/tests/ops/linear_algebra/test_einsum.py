"""einsum against NumPy and PyTorch."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, OperandError, ShapeError
from ingle.tensor.ops.linear_algebra.einsum import _steps
from ingle.tensor.programs import Aval, trace

RNG = np.random.default_rng(0)
EQUATIONS = [
    ("i->i", [(3,)]), ("i->", [(3,)]), ("ij->ji", [(2, 3)]), ("ij", [(2, 3)]), ("ba", [(2, 3)]),
    ("ii", [(3, 3)]), ("ii->i", [(3, 3)]), ("iij->j", [(3, 3, 2)]), ("iii->i", [(2, 2, 2)]),
    ("ijij->ij", [(2, 3, 2, 3)]), ("i,i", [(3,), (3,)]), ("i,j->ij", [(3,), (2,)]),
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,kj", [(2, 3), (4, 3)]), ("bij,bjk->bik", [(5, 2, 3),
    (5, 3, 4)]), ("ij,ij->ij", [(2, 3), (2, 3)]), ("ij,k->jk", [(2, 3), (4,)]),
    ("...ij,...jk->...ik", [(5, 1, 2, 3), (4, 3, 2)]), ("...,...", [(2, 3), (3,)]),
    ("i...->...", [(2, 3, 4)]), ("...i->i...", [(2, 3, 4)]), ("i...i->...", [(3, 2, 3)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]), ("ij,jk,kl,lm->im", [(2, 9), (9, 2), (2, 9), (9,
    2)]), ("i,i,i->", [(3,)] * 3), ("ab,bc,ca", [(2, 3), (3, 4), (4, 2)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]), (" i j , j k -> i k ", [(2, 3), (3, 4)]),
    (",ij->ij", [(), (2, 3)]), ("ij,jk->ik", [(2, 0), (0, 3)]), ("ij->", [(0, 3)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]), ("Ab,bA->A", [(2, 3), (3, 2)]),
]  # fmt: skip


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_values(equation: str, shapes: Any) -> None:
    arrays = [RNG.standard_normal(s) for s in shapes]
    got = it.einsum(equation, *map(it.asarray, arrays)).numpy()
    np.testing.assert_allclose(got, np.einsum(equation, *arrays), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS[1:-3:2])
def test_gradients(like_torch: Any, equation: str, shapes: Any) -> None:
    torch = pytest.importorskip("torch")
    arrays = [RNG.standard_normal(s) for s in shapes]
    like_torch(lambda *x: it.einsum(equation, *x), lambda *x: torch.einsum(equation, *x), arrays)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_equations(data: st.DataObject) -> None:
    letters = string.ascii_letters[: data.draw(st.integers(1, 5))]
    sizes = {c: data.draw(st.integers(1, 3)) for c in letters}
    terms = data.draw(st.lists(st.text(letters, max_size=3), min_size=1, max_size=4))
    used = sorted(set("".join(terms)))
    output = "".join(data.draw(st.lists(st.sampled_from(used), unique=True))) if used else ""
    arrays = [RNG.standard_normal([sizes[c] for c in t]) for t in terms]
    equation = f"{','.join(terms)}->{output}"
    got = it.einsum(equation, *map(it.asarray, arrays)).numpy()
    np.testing.assert_allclose(got, np.einsum(equation, *arrays), rtol=1e-10, atol=1e-10)


def test_lists_of_numbers() -> None:
    a, b = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((4, 5))
    x, y = it.asarray(a), it.asarray(b)
    for lists in ([..., 0], [0, 1], [..., 1]), ([..., 0], [0, 1], None):
        ours, theirs = [x, lists[0], y, lists[1]], [a, lists[0], b, lists[1]]
        if lists[2] is not None:
            ours.append(lists[2])
            theirs.append(lists[2])
        np.testing.assert_allclose(it.einsum(*ours).numpy(), np.einsum(*theirs))


def test_dtypes() -> None:
    small = it.asarray([[1, 2], [3, 4]], dtype="int8")
    assert it.einsum("ij->i", small).dtype is it.int8
    assert it.einsum("ij,j->i", small, it.ones(2)).dtype is it.float32
    z = RNG.standard_normal((2, 3)) + 1j
    np.testing.assert_allclose(
        it.einsum("ij,kj->ik", it.asarray(z), it.asarray(z)).numpy(), np.einsum("ij,kj->ik", z, z)
    )


def test_long_chains_keep_their_products_small() -> None:
    """A chain that begins with an outer product would need 10 GB here if it went left to right."""
    n = 3000
    a, b, c = (it.asarray(RNG.standard_normal(n)) for _ in range(3))
    assert it.einsum("i,j,j->i", a, b, c).shape == (n,)
    chain = it.einsum("i,j,k,k,j->i", a, b, c, c, b)
    np.testing.assert_allclose(chain.numpy(), (a * (b * b).sum() * (c * c).sum()).numpy())


@pytest.mark.parametrize(
    ("equation", "shapes", "error", "message"),
    [
        ("ij,jk", [(2, 3)], OperandError, "each of the 1 operands"),
        ("ij->ik", [(2, 3)], ArgumentError, "'k' that no operand has"),
        ("ij->ii", [(2, 3)], ArgumentError, "'i' twice"),
        ("ij,jk", [(2, 3), (4, 5)], ShapeError, "index 'j'.* one size .* 3 and 4"),
        ("ijk", [(2, 3)], ShapeError, "must have the 3 axes .* got 2"),
        ("i", [(2, 3)], ShapeError, "stands for the others"),
        ("i1", [(2, 3)], ArgumentError, "'1'"),
        ("i->j->k", [(2,)], ArgumentError, "'-'"),
    ],
)
def test_errors(equation: str, shapes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        it.einsum(equation, *(it.zeros(s) for s in shapes))


def test_errors_of_lists() -> None:
    with pytest.raises(ArgumentError, match="equation must be a text"):
        it.einsum(it.zeros(2))
    with pytest.raises(ArgumentError, match=r"in \[0, 52\)"):
        it.einsum(it.zeros(2), [99])


def test_dot_products_of_rows_are_no_matrix_products(monkeypatch: Any) -> None:
    """As matrices of one row and one column they would be all packing."""
    monkeypatch.delattr("ingle.tensor.ops.linear_algebra.einsum.matmul")
    x, y = np.arange(24.0).reshape(2, 3, 4), np.ones((4, 3)) * [[1], [2], [3], [4]]
    found = it.einsum("bij,ji->i", it.asarray(x), it.asarray(y))
    np.testing.assert_array_equal(found.numpy(), np.einsum("bij,ji->i", x, y))
    found = it.einsum("ab,ab->b", it.asarray(x[0]), it.asarray(x[1]))
    np.testing.assert_array_equal(found.numpy(), np.einsum("ab,ab->b", x[0], x[1]))


@pytest.mark.parametrize(
    ("equation", "shapes", "names"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)], ["matmul"]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], ["matmul"]),
        ("ij,ij->i", [(3, 4), (3, 4)], ["multiply", "sum"]),
        ("ij,kj->ik", [(3, 4), (5, 4)], ["permute_dims", "matmul"]),
        ("i,j->ij", [(3,), (4,)], ["reshape", "reshape", "multiply"]),
    ],
)
def test_nothing_is_moved_that_lies_right(
    equation: str, shapes: list[tuple[int, ...]], names: list[str]
) -> None:
    avals = [Aval(s, it.float32) for s in shapes]
    steps = trace(lambda *x: it.einsum(equation, *x), avals, "numpy").program.steps
    assert [s.op.operation.name for s in steps] == names


def test_an_equation_is_read_once_for_equal_shapes() -> None:
    x, y = it.ones((2, 7)), it.ones((7, 5))
    it.einsum("ax,xb->ba", x, y)
    known = _steps.cache_info()
    for value in (2.0, 3.0):
        np.testing.assert_array_equal(
            it.einsum("ax,xb->ba", x * value, y), np.full((5, 2), 7 * value)
        )
    after = _steps.cache_info()
    assert (after.misses, after.hits) == (known.misses, known.hits + 2)


def test_sizes_that_stand_for_many_are_not_remembered() -> None:
    def f(x: it.Tensor) -> it.Tensor:
        return it.einsum("ij,kj->ik", it.exp(x), x) * 2.0

    for n in range(2, 12):  # from the third size on they share a plan, which symbols stand for
        array = RNG.standard_normal((n, 3))
        expected = np.exp(array) @ array.T * 2.0
        for _ in range(2):
            np.testing.assert_allclose(f(it.asarray(array)).numpy(), expected, rtol=1e-12)

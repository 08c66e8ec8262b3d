"""Mixed precision at the door: what is cast, what is not, and where it ends."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import checkpoint, custom_gradient, vmap
from ingle.fusion import compile
from ingle.tensor.errors import DTypeError
from ingle.tensor.operation import OPERATIONS

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def test_rooms_say_what_is_cast() -> None:
    x, w = it.asarray(X), it.asarray(X.T)
    with it.precision("bfloat16"):
        y = x @ w
        assert y.dtype is it.bfloat16
        assert it.sum(y).dtype is it.float32
        assert it.relu(y).dtype is it.bfloat16
        assert (y + x[:, :3]).dtype is it.float32
        assert it.concat([y, x], axis=1).dtype is it.float32
        assert it.einsum("ij,jk->ik", x, w).dtype is it.bfloat16
    expected = x.astype("bfloat16") @ w.astype("bfloat16")
    assert it.all(y == expected)
    assert (x @ w).dtype is it.float32


def test_sums_of_half_types_are_those_of_float32() -> None:
    ones = it.ones((4096,), dtype="float16") * 100.0
    with it.precision("float16"):
        assert it.sum(ones).item() == 409600.0
        assert it.sum(ones, dtype="float16").dtype is it.float16


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32"])
def test_other_dtypes_are_left_alone(dtype: str) -> None:
    x = it.asarray(X).astype(dtype)
    with it.precision("bfloat16"):
        assert (x @ x.mT).dtype.name == dtype
        assert it.sum(x).dtype == it.sum(x, dtype=it.sum(x).dtype).dtype


def test_blocks_nest_and_end() -> None:
    x = it.asarray(X)
    with it.precision("bfloat16"):
        with it.precision("float32"):
            assert (x @ x.mT).dtype is it.float32
        with it.precision("float16"):
            assert (x @ x.mT).dtype is it.float16
        with it.precision(None):
            assert it.chosen_precision() is None
        assert (x @ x.mT).dtype is it.bfloat16
    with pytest.raises(ValueError, match="inside"), it.precision("bfloat16"):
        raise ValueError("inside")
    assert it.chosen_precision() is None


def test_other_threads_have_their_own() -> None:
    found: list[object] = []
    with it.precision("bfloat16"):
        thread = threading.Thread(target=lambda: found.append(it.chosen_precision()))
        thread.start()
        thread.join()
    assert found == [None]


@pytest.mark.parametrize("wrong", ["float64", "int8", "float8_e4m3fn"])
def test_other_precisions_are_refused(wrong: str) -> None:
    with pytest.raises(DTypeError, match=f"'bfloat16' or 'float16'.*{wrong}"):
        it.precision(wrong)


def test_gradients_are_those_of_casts_by_hand() -> None:
    # Kernels of several operations round half types less often, so bits are those of numpy.
    x, w = (it.asarray(v, device="numpy").require_grad() for v in (X, X.T))
    with it.precision("bfloat16"):
        loss = it.sum(it.square(it.softmax(x @ w, axis=1)))
        inside = loss.backward()
    y = (x.astype("bfloat16") @ w.astype("bfloat16")).astype("float32")
    expected = it.sum(it.square(it.softmax(y, axis=1))).backward()
    for t in (x, w):
        assert inside[t].dtype is it.float32
        assert it.all(inside[t] == expected[t])


def test_bodies_compute_in_what_they_are_given() -> None:
    # `det` is of high precision, and what it is made of has products.
    matrix = it.asarray(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32))
    with it.device("numpy"):
        m = matrix.to_device("numpy")
        plain = it.linalg.det(m), it.linalg.matrix_norm(m, ord="nuc"), it.linalg.inv(m)
        with it.precision("bfloat16"):
            mixed = it.linalg.det(m), it.linalg.matrix_norm(m, ord="nuc"), it.linalg.inv(m)
    for a, b in zip(plain, mixed, strict=True):
        assert it.all(a == b)


def test_a_value_that_is_only_written_down_keeps_its_dtype() -> None:
    x = it.asarray(X)
    later = it.softmax(x @ x.mT, axis=1)  # planned when it is read, inside of the block
    again = it.softmax(it.asarray(X) @ it.asarray(X).mT, axis=1).numpy()
    with it.precision("bfloat16"):
        np.testing.assert_array_equal(later.numpy(), again)


def test_checkpointed_blocks_are_replayed_in_their_precision() -> None:
    x = it.asarray(X, device="numpy").require_grad()
    with it.precision("bfloat16"):
        plain = it.sum(it.tanh(x @ x.mT))
        kept = it.sum(checkpoint(lambda x: it.tanh(x @ x.mT))(x))
    assert it.all(plain.backward()[x] == kept.backward()[x])


def test_compiled_functions_are_recorded_for_each_precision() -> None:
    @compile
    def product(x):  # type: ignore[no-untyped-def]
        return x @ x.mT

    x = it.asarray(X)
    for _ in range(3):
        assert product(x).dtype is it.float32
        with it.precision("bfloat16"):
            assert product(x).dtype is it.bfloat16
    inside = compile(it.precision("bfloat16")(lambda x: x @ x.mT))
    for _ in range(3):
        assert it.all(inside(x) == x.astype("bfloat16") @ x.mT.astype("bfloat16"))


def test_under_vmap_and_custom_gradients() -> None:
    x = it.asarray(np.stack([X, X + 1]))
    with it.precision("bfloat16"):
        mapped = vmap(lambda a: it.softmax(a @ a.mT, axis=1))(x)
        by_hand = it.softmax(x @ x.mT, axis=2)
    assert mapped.dtype is it.float32
    np.testing.assert_allclose(mapped.numpy(), by_hand.numpy(), rtol=1e-6)

    seen: list[object] = []

    @custom_gradient
    def twice(x):  # type: ignore[no-untyped-def]
        def back(g):  # type: ignore[no-untyped-def]
            seen.append(it.chosen_precision())
            return g * 2.0

        return x * 2.0, back

    w = it.asarray(X).require_grad()
    with it.precision("bfloat16"):
        twice(w).sum().backward()
    assert seen == [None]


def test_a_carry_keeps_its_dtype() -> None:
    w = it.asarray(X @ X.T)
    with it.precision("bfloat16"):
        rows = it.ones((4, 1, 3))
        last, _ = it.scan(lambda h, x: (it.tanh(h @ w + x), h), it.zeros((1, 3)), rows)
    assert last.dtype is it.float32


def test_every_operation_has_an_answer() -> None:
    low = {n for n, o in OPERATIONS.items() if o.traits.precision == "low"}
    assert {"matmul", "linear", "conv", "scaled_dot_product_attention"} <= low
    for name in ("sum", "mean", "softmax", "cross_entropy", "layer_norm", "exp", "log"):
        assert OPERATIONS[name].traits.precision == "high", name

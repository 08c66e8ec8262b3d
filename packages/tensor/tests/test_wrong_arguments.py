"""Arguments of the wrong kind get an error that says so, in each family of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, IngleError, OperandError, ShapeError

WRONG: list[Any] = [{"a": 1}, "x", [1.0, "y"], object(), np.ones((2, 2)), it.ones((2, 2))]
MORE: Any = 1 << 70

CALLS: dict[str, Callable[[Any], Any]] = {
    "a dtype": lambda v: it.ones(2).astype(v),
    "a dtype of floats": lambda v: it.random.normal(2, dtype=v),
    "a pair of dtypes": lambda v: it.promote_types(v, it.float32),
    "a generator": lambda v: it.random.uniform(2, generator=v),
    "a generator of dropout": lambda v: it.dropout(it.ones(2), generator=v),
    "a mean": lambda v: it.random.normal(2, mean=v),
    "a scale": lambda v: it.random.laplace(2, scale=v),
    "a probability": lambda v: it.random.bernoulli(v),
    "a flag": lambda v: it.argmax(it.ones(3), keepdims=v),
    "a padding": lambda v: it.conv1d(it.ones((1, 1, 4)), it.ones((1, 1, 2)), padding=v),
    "a norm": lambda v: it.linalg.matrix_norm(it.ones((2, 2)), ord=v),
    "a method": lambda v: it.quantization_range(it.ones(4), method=v),
    "a number of bins": lambda v: it.histogram(it.ones(3), v),
    "pieces": lambda v: it.tensor_split(it.ones(4), v),
    "axes": lambda v: it.tensordot(it.ones((2, 2)), it.ones((2, 2)), axes=(v, v)),
}
SIZES: dict[str, Callable[[int], Any]] = {
    "a window": it.hann_window,
    "classes": lambda n: it.one_hot(it.asarray([0, 1]), n),
    "bins": lambda n: it.histogram(it.ones(3), n),
    "pieces": lambda n: it.tensor_split(it.ones(4), n),
    "a factor": lambda n: it.interpolate(it.ones((1, 1, 4)), scale_factor=n),
    "a permutation": it.random.permutation,
    "a number": lambda n: it.asarray([1, 2]) + n,
    "the larger of a choice": lambda n: it.where(it.asarray([True]), n, 1),
}


@pytest.mark.parametrize("what", CALLS)
def test_of_another_kind(what: str) -> None:
    for value in WRONG:
        if what in ("a number of bins", "a probability") and isinstance(value, it.Tensor):
            continue  # which are edges, and one for each element
        with pytest.raises(IngleError):
            CALLS[what](value)


@pytest.mark.parametrize("what", SIZES)
def test_of_no_size_that_memory_has(what: str) -> None:
    with pytest.raises(IngleError):
        SIZES[what](MORE)


def test_a_number_beyond_all_floats() -> None:
    with pytest.raises(IngleError, match="2001 bits does not fit float32"):
        it.ones(2) * (1 << 2000)


def test_the_last_integer_that_is_a_float() -> None:
    x = it.ones(1, dtype="float64")
    for number in (2**1022, -(2**1023) + 1):
        assert (x * number).tolist() == (number * x).tolist() == [float(number)]
    for number in (2**1023, -(2**1023)):
        with pytest.raises(IngleError, match="x2: the integer of 1024 bits"):
            x * number
        with pytest.raises(IngleError, match="x1: the integer of 1024 bits"):
            number * x


@pytest.mark.parametrize("data", [[1.0, 2.0], 3, None, "cpu"])
def test_a_tensor_made_as_elsewhere_says_what_to_call(data):
    with pytest.raises(ArgumentError, match=r"asarray\(data\)"):
        it.Tensor(data)


def test_cells_are_shown_by_dtype_and_shape() -> None:
    """A model's parameters are cells: their values would hide what matters."""
    weight, bias = it.Cell(it.ones(3)), it.Cell(it.zeros(3))
    for wrong, shown in ((weight, r"float32\[3\] on \w+"), ([bias], r"\[float32\[3\] on \w+\]")):
        with pytest.raises(ArgumentError, match=f"eps must be a number, got {shown}$"):
            it.batch_norm_training(it.ones((2, 3)), weight, bias, eps=wrong)


@pytest.mark.parametrize("call", [it.meshgrid, it.broadcast_arrays, it.block_diag, it.sum])
def test_a_list_of_tensors_in_place_of_tensors(call: Callable[..., object]) -> None:
    with pytest.raises(OperandError, match=r"got list; .* \(with \* before the list\), or stack\("):
        call([it.ones(2), it.ones(2)])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "got NoneType; the function that made it may lack a return"),
        (it.relu, "got function; .* call it, and give what it returns"),
        ((it.ones(2), 3), r"got tuple; give one of its tensors, .* before the tuple"),
    ],
)
def test_what_is_no_tensor(given: Any, told: str) -> None:
    with pytest.raises(OperandError, match=f"mse_loss: x must be a tensor, {told}"):
        it.mse_loss(given, it.ones(2))


def test_what_beginners_forget_about_shapes() -> None:
    with pytest.raises(ShapeError, match=r"28 and 784 differ; flatten\(x, 1\) is a vector"):
        it.linear(it.ones((3, 28, 28)), it.ones((10, 784)))
    with pytest.raises(ShapeError, match=r"channels come before sizes: moveaxis\(x, -1, 1\)"):
        it.conv2d(it.ones((1, 8, 8, 3)), it.ones((4, 3, 3, 3)))

"""PyTorch's later arguments: the error says what to write."""

from __future__ import annotations

import inspect
import pickle

import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError
from ingle.tensor.later_arguments import _OPTIONS

x = it.reshape(it.arange(24, dtype="float32"), (2, 3, 4))
matrix = it.eye(3)
image = it.ones((1, 2, 6, 6))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: it.avg_pool2d(image, 3, 2), r"2 positional arguments, got 3; the others are str"),
        (lambda: it.max_pool1d(image[0], 3, 2, 1), "max_pool1d: .* the others are stride=, pad"),
        (lambda: x.topk(2, 1, True, True), "topk: .* the others are axis=, largest="),
        (lambda: it.tril(matrix, 1), "tril: takes 1 positional argument, got 2; the other is k="),
        (lambda: matrix.triu(1), "the other is k="),
        (lambda: it.diag(matrix, 1), "the other is offset="),
        (lambda: it.diagonal(x, 0, 1, 2), "the other is offset="),
        (lambda: it.gelu(x, "tanh"), "the other is approximate="),
        (lambda: it.linalg.cond(matrix, 1), "the other is ord="),
        (lambda: it.linalg.matrix_norm(matrix, "fro", (0, 1)), "the others are keepdims=, ord="),
    ],
)
def test_arguments_by_position(call, said):
    with pytest.raises(TypeError, match=said):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: it.softmax(x, dim=1, dtype=it.float64), r'softmax\(x.astype\("float64"\), axis'),
        (lambda: x.log_softmax(1, dtype="float64"), r'log_softmax\(x.astype\("float64"\), axis'),
        (lambda: it.add(x, x, alpha=2), r"write x \+ 2 \* y"),
        (lambda: it.subtract(x, x, alpha=2), r"write x - 2 \* y"),
        (lambda: it.divide(x, x, rounding_mode="floor"), r"write floor_divide\(x, y\)"),
        (lambda: it.diagonal(x, dim1=0, dim2=1), r"diagonal\(moveaxis\(x, \(dim1, dim2\)"),
        (lambda: x.flatten(start_dim=1), "write start_axis=1"),
        (lambda: it.linalg.lstsq(matrix, matrix, driver="gels"), "lstsq: .* leave it out"),
        (lambda: it.linalg.matrix_norm(x, dim=(0, 1)), r"moveaxis\(x, \(0, 1\), \(-2, -1\)\)"),
        (lambda: it.linalg.cond(matrix, p=1), "write ord=1"),
        (lambda: it.tril(matrix, diagonal=1), "write k=1"),
        (lambda: it.topk(x, 2, sorted=True), "always come in order"),
        (lambda: it.dropout(x, inplace=True), "tensors never change, dropout returns"),
    ],
)
def test_arguments_by_name(call, said):
    with pytest.raises(ArgumentError, match=said):
        call()


def test_advice_names_functions_and_options_that_are_there():
    for key in _OPTIONS:
        if isinstance(key, tuple):
            function = getattr(it, key[0], None) or getattr(it.linalg, key[0])
            assert key[1] not in inspect.signature(function).parameters, key


def test_other_errors_of_types_stay_and_functions_are_found_by_name():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        it.tril(matrix, nonsense=1)
    assert pickle.loads(pickle.dumps(it.tril)) is it.tril
    assert pickle.loads(pickle.dumps(it.add)) is it.add

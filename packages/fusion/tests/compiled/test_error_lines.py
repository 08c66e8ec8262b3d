"""What a plan finds wrong as it runs names the line of the operation, as a traceback does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.tensor as it
from ingle.autodiff import grad
from ingle.fusion import CompileError, compile
from ingle.tensor.errors import OutOfRangeError, TraceError
from ingle.tensor.programs import Aval, trace

ROWS, COLUMNS = 7, 3


def taken(x: it.Tensor, i: it.Tensor) -> it.Tensor:
    y = it.exp(x)
    return it.take(y, i, axis=0)


def sliced(x: it.Tensor, i: it.Tensor) -> it.Tensor:
    y = it.exp(x)
    return it.slice(y, (i[0], 0), (2, COLUMNS))


def updated(x: it.Tensor, i: it.Tensor) -> it.Tensor:
    y = it.exp(x)
    return it.scatter_add(y, i, y[:1])


def loss(x: it.Tensor, i: it.Tensor) -> it.Tensor:
    y = it.exp(x[:1])
    return nn.functional.cross_entropy(y, i)


def differentiated(x: it.Tensor, i: it.Tensor) -> it.Tensor:
    return grad(lambda x: it.sum(it.exp(it.take(x, i, axis=0))))(x)


def transposed(x: it.Tensor, i: it.Tensor) -> it.Tensor:
    y = it.exp(x).T @ x
    return it.take(y, i, axis=0)


def chosen(x: it.Tensor, i: it.Tensor) -> it.Tensor:
    y = it.exp(x)
    return y[i, i % 2]


def replaced(x: it.Tensor, i: it.Tensor) -> it.Tensor:
    y = it.exp(x)
    return y.at[i % 2, i].add(1.0)


def put(x: it.Tensor, i: it.Tensor) -> it.Tensor:
    y = it.exp(x)
    return it.put_along_axis(y, i[None], 1.0, axis=0)


@pytest.mark.parametrize("function", [chosen, replaced, put])
def test_an_index_of_several_axes_is_refused_in_the_name_of_who_indexes(
    function: Callable[..., it.Tensor],
) -> None:
    name = {chosen: "x[...]", replaced: "x[...] = value", put: "put_along_axis"}[function]
    x = it.asarray(np.ones((ROWS, COLUMNS), np.float32), device="cpu")
    i = it.asarray([9], device="cpu")
    line = function.__code__.co_firstlineno + 2
    for _ in range(4):  # operation by operation, then by calls that are known
        with pytest.raises(OutOfRangeError) as found:
            function(x, i).numpy()
        text = f"{name}: the indices hold 9, but axis "
        assert str(found.value).startswith(text), found.value
        assert str(found.value).endswith(f"_lines.py:{line}, in {function.__name__}"), found.value


@pytest.mark.parametrize("rows", [5, 300])
def test_an_error_of_plain_code_names_its_line(rows: int) -> None:
    x = it.asarray(np.ones((rows, 90), np.float32), device="cpu")
    good, bad = it.asarray([1], device="cpu"), it.asarray([rows], device="cpu")

    def chosen(*indices: it.Tensor) -> it.Tensor:
        first = it.take(x, indices[0], axis=0)
        return it.exp(first) + it.take(x, indices[1], axis=0)

    line = chosen.__code__.co_firstlineno + 1
    for place in (0, 1):
        for _ in range(3):  # operation by operation, then by a plan
            wrong = chosen(*([good, bad] if place else [bad, good]))
            with pytest.raises(OutOfRangeError, match=rf"_lines.py:{line + place}, in chosen$"):
                wrong.numpy()


FUNCTIONS = [
    (taken, 2, r"take: the indices hold a value outside of -7 to 6.*\(shapes \(7, 3\), \(1,\)\)"),
    (sliced, 2, r"slice: the piece of shape \(2, 3\) does not lie inside of shape \(7, 3\)"),
    (updated, 2, r"scatter_add: the indices .*\(shapes \(7, 3\), \(1,\)\)"),
    (loss, 2, r"^cross_entropy: the indices hold a value outside of 0 to 2"),
    (differentiated, 1, r"take: .*\(shapes \(7, 3\), \(1,\)\)"),
    (chosen, 2, r"^x\[\.\.\.\]: an index lies outside of axes \(0, 1\), .* sizes \(7, 3\)"),
    (replaced, 2, r"^x\[\.\.\.\] = value: an index lies outside of axes \(0, 1\), .* \(7, 3\)"),
    (put, 2, r"^put_along_axis: an index lies outside of axes \(0, 1\), .* \(7, 3\)"),
    (transposed, 2, r"take: .*outside of -3 to 2.*\(shapes \(3, 3\), \(1,\)\)"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "line", "text"), FUNCTIONS)
def test_an_error_of_a_compiled_function_names_its_line(
    function: Callable[..., Any], line: int, text: str
) -> None:
    line += function.__code__.co_firstlineno
    rng = np.random.default_rng(0)
    for transposes in (False, True):
        values = rng.normal(size=(COLUMNS, ROWS) if transposes else (ROWS, COLUMNS))
        x = it.asarray(values.astype(np.float32), device="cpu")
        x = x.T if transposes else x  # another plan where a product reads it
        good, bad = it.asarray([1], device="cpu"), it.asarray([9], device="cpu")
        for _ in range(2):  # a plan of this process, and one that is found on disk
            run = compile(function)
            run(x, good)
            for _ in range(2):
                with pytest.raises(OutOfRangeError) as found:
                    run(x, bad)
                where = rf", at \S*test_error_lines.py:{line}, in ({function.__name__}|<lambda>)$"
                assert re.search(text + ".*" + where, str(found.value)), found.value


@pytest.mark.parametrize(
    ("asks", "name"),
    [
        (lambda x: it.allclose(x, x), "allclose: "),
        (lambda x: it.repeat(x, x), "repeat: "),
        (lambda x: x if x[0] > 0 else -x, ""),
    ],
)
def test_an_operation_that_asks_for_a_value_is_named(asks: Any, name: str) -> None:
    x = it.asarray([1, 2, 2, 0])
    with pytest.raises(CompileError, match=rf"py:\d+, in <lambda>: {name}the value of a tensor"):
        compile(asks)(x)
    with pytest.raises(TraceError, match=f"^{name}the value of a"):
        trace(asks, [Aval((4,), it.int64)])

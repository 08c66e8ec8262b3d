"""Operations on rows by themselves, on more numbers of rows than have plans of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.runtime import graph_plans
from ingle.tensor.device import backend_of
from ingle_cpu.eager.any_rows import NestRows, ProductRows, RowCalls
from ingle_cpu.eager.single_operation import SingleOperations

WIDTH = 48
FUNCTIONS = {
    "linear": lambda x, w, b: it.linear(x, w, b),
    "linear without bias": lambda x, w, b: it.linear(x, w),
    "matmul": lambda x, w, b: it.matmul(x, w.mT),
    "layer_norm": lambda x, w, b: it.layer_norm(x, x.shape[-1:], w[0], w[1]),
    "rms_norm": lambda x, w, b: it.rms_norm(x, x.shape[-1:], w[0]),
    "softmax": lambda x, w, b: it.softmax(x, axis=-1),
    "log_softmax": lambda x, w, b: it.log_softmax(x, axis=-1),
    "sum": lambda x, w, b: it.sum(x, axis=-1),
    "mean of columns": lambda x, w, b: it.mean(x, axis=0),
    "logsumexp": lambda x, w, b: it.logsumexp(x, axis=-1, keepdims=True),
    "atan2 of a row": lambda x, w, b: it.atan2(x, w[0]),
    "cumulative_sum": lambda x, w, b: it.cumulative_sum(x * x, axis=-1),
}
COUNTS = [2, 3, 4, 5, 7, 8, 9, 12, 16, 25, 31, 33, 64, 65, 100, 129, 200, 401, 1500]


def operands(rng, dtype, rows):
    draw = lambda *shape: it.asarray(rng.normal(size=shape).astype(dtype))  # noqa: E731
    return draw(*rows, WIDTH), draw(32, WIDTH), draw(32)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_those_of_plans(name, dtype, monkeypatch):
    function, rng = FUNCTIONS[name], np.random.default_rng(0)
    device = backend_of("cpu").inner
    monkeypatch.setattr(
        device,
        "_single_operations",
        SingleOperations(device, device.fusion, device._single_operations._native),
    )
    for turn, count in enumerate(COUNTS):
        x, w, b = operands(rng, dtype, (count,) if turn % 3 else (1, count))
        found = function(x, w, b).numpy()
        with monkeypatch.context() as planned:
            planned.setattr(RowCalls, "call", lambda *_: None)
            known, device._single_operations._known = device._single_operations._known, {}
            expected = function(x, w, b).numpy()
            device._single_operations._known = known
        np.testing.assert_array_equal(found, expected, err_msg=f"{count} rows")


@pytest.mark.parametrize("name", ["linear", "layer_norm", "softmax"])
def test_new_lengths_are_not_planned(name, monkeypatch):
    function, rng = FUNCTIONS[name], np.random.default_rng(1)
    device = backend_of("cpu").inner
    monkeypatch.setattr(
        device,
        "_single_operations",
        SingleOperations(device, device.fusion, device._single_operations._native),
    )
    made = []
    plan = graph_plans.compile_graph
    monkeypatch.setattr(graph_plans, "compile_graph", lambda *args: made.append(1) or plan(*args))
    for count in range(2, 60):
        function(*operands(rng, "float32", (1, count))).numpy()
    assert 0 < len(made) <= 8, "two lengths, and one more wherever they grow fourfold"


@pytest.mark.parametrize("name", ["linear", "layer_norm"])
def test_operands_that_lie_otherwise_and_threads(name, monkeypatch):
    function, rng = FUNCTIONS[name], np.random.default_rng(2)
    device = backend_of("cpu").inner
    monkeypatch.setattr(
        device,
        "_single_operations",
        SingleOperations(device, device.fusion, device._single_operations._native),
    )
    _, w, b = operands(rng, "float64", (2,))
    for count in range(2, 9):
        x = it.permute_dims(operands(rng, "float64", (count,))[0], (1, 0))
        x = it.flip(it.permute_dims(x, (1, 0)), axis=0)
        straight = it.asarray(x.numpy().copy())
        np.testing.assert_array_equal(function(x, w, b).numpy(), function(straight, w, b).numpy())
        columns = it.permute_dims(it.asarray(np.ascontiguousarray(x.numpy().T)), (1, 0))
        np.testing.assert_allclose(
            function(columns, w, b).numpy(), function(straight, w, b).numpy(), rtol=1e-12
        )
    cases = [operands(rng, "float64", (count,)) for count in range(10, 30)] * 2
    alone = [function(*case).numpy() for case in cases]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda case: function(*case).numpy(), cases))
    for a, t in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, t)


def test_kernels_and_products_are_both_called_so(monkeypatch):
    used = []
    for kind in (NestRows, ProductRows):
        run = kind.__call__
        monkeypatch.setattr(
            kind, "__call__", lambda self, x, run=run: used.append(type(self)) or run(self, x)
        )
    rng = np.random.default_rng(3)
    for count in range(2, 8):
        x, w, b = operands(rng, "float32", (3, count))
        it.softmax(it.linear(x, w, b), axis=-1).numpy()
    assert {*used} == {NestRows, ProductRows}


@pytest.mark.parametrize("name", ["cumulative_sum", "softmax", "max"])
def test_what_mixes_rows_keeps_its_plans(name, monkeypatch):
    device = backend_of("cpu").inner
    monkeypatch.setattr(
        device,
        "_single_operations",
        SingleOperations(device, device.fusion, device._single_operations._native),
    )
    rng = np.random.default_rng(4)
    for count in range(2, 9):
        x = rng.normal(size=(count, 70, WIDTH))
        getattr(it, name)(it.asarray(x), axis=0).numpy()
    assert not any(calls._agreed for calls in device._single_operations._rows.values())

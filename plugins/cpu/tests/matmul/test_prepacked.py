"""Weights that are prepacked: the same bits, never an old value, and no memory left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device.executables import ShareOfTime
from ingle_cpu.launch import executable
from ingle_cpu.launch.table_builder import TableBuilder
from ingle_cpu.matmul import prepacked
from ingle_numpy.memory import pool

ROWS, DEEP, WIDE = 40, 96, 200


@pytest.fixture(autouse=True)
def read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "PACKING_RUNS", 0)
    monkeypatch.setattr(executable, "BUILDING", ShareOfTime(1.0))


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    gc.collect()
    assert prepacked.prepacked_bytes() == 0
    yield
    gc.collect()
    assert prepacked.prepacked_bytes() == 0


def tensor(seed: int, *shape: int, dtype: str = "float32") -> it.Tensor:
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return it.asarray(numbers, device="cpu").astype(getattr(it, dtype))


def product(x: it.Tensor, w: it.Tensor) -> Any:
    return x.numpy().astype(np.float64) @ w.numpy().astype(np.float64)


def test_the_third_call_keeps_them_and_the_memory_is_counted() -> None:
    x, w = tensor(0, ROWS, DEEP), tensor(1, DEEP, WIDE)
    f = compile(lambda x, w: x @ w)
    seen = []
    before = it.memory.stats("cpu").in_use
    for _ in range(5):
        f(x, w).numpy()
        seen.append(prepacked.prepacked_bytes())
    assert seen[:2] == [0, 0]
    assert seen[2] == seen[4] >= w.nbytes
    assert it.memory.stats("cpu").in_use - before >= w.nbytes


USES: dict[str, tuple[Any, Any]] = {
    "product": ((DEEP, WIDE), lambda x, w: x @ w),
    "linear": ((WIDE, DEEP), lambda x, w: it.linear(x, w)),
    "part": ((DEEP + 5, WIDE + 3), lambda x, w: x @ w[2 : 2 + DEEP, 3:]),
    "one of three": ((3, DEEP, WIDE), lambda x, w: it.relu(x @ w[1]) + 1.0),
}
EVERY_PAIR = [
    pytest.param(use, rows, dtype, marks=[pytest.mark.nightly] if (i + j + k) % 4 else [])
    for i, use in enumerate(USES)
    for j, rows in enumerate((9, 40, 250, 300))
    for k, dtype in enumerate(("float32", "float64", "float16", "bfloat16"))
]
"""A Latin square: each use with each number of rows and each dtype. The rest runs at night."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "rows", "dtype"), EVERY_PAIR)
def test_results_have_the_same_bits(name: str, rows: int, dtype: str) -> None:
    shape, use = USES[name]
    x, w = tensor(0, rows, DEEP, dtype=dtype), tensor(1, *shape, dtype=dtype)
    f = compile(use)
    first, *others = [f(x, w).numpy().tobytes() for _ in range(6)]
    assert set(others) == {first}


def test_plans_that_stop_for_numpy_keep_them_too() -> None:
    x, w = tensor(0, ROWS, DEEP), tensor(1, DEEP, WIDE)
    f = compile(lambda x, w: it.sort(x @ w, axis=-1) * 2.0)
    first, *others = [f(x, w).numpy().tobytes() for _ in range(5)]
    assert set(others) == {first}
    assert prepacked.prepacked_bytes() >= w.nbytes


def test_products_of_other_batch_sizes_share_them() -> None:
    w = tensor(1, DEEP, WIDE)
    f = compile(lambda x, w: x @ w)
    for rows in (16, 40, 64):
        x = tensor(rows, rows, DEEP)
        for _ in range(4):
            np.testing.assert_allclose(f(x, w).numpy(), product(x, w), atol=1e-4)
    assert prepacked.prepacked_bytes() < 2 * w.nbytes


def test_another_value_of_a_cell_is_another_weight() -> None:
    x, cell = tensor(0, ROWS, DEEP), it.Cell(tensor(1, DEEP, WIDE))
    f = compile(lambda x: x @ cell.value)
    for seed in range(4):
        cell.value = tensor(seed, DEEP, WIDE)
        for _ in range(5):
            np.testing.assert_allclose(f(x).numpy(), product(x, cell.value), atol=1e-4)


def test_a_step_that_writes_over_a_weight_makes_them_forgotten() -> None:
    layer = nn.Linear(DEEP, WIDE, device="cpu")
    optimizer = optim.AdamW(layer, lr=0.1)
    x = tensor(0, ROWS, DEEP)

    def step(x: it.Tensor) -> it.Tensor:
        loss = it.mean(layer(x) ** 2)
        optimizer.step(loss.backward())
        return loss.detach()

    train, evaluate = compile(step), compile(lambda x: layer(x))
    for _ in range(6):
        train(x).numpy()
    assert prepacked.prepacked_bytes() <= x.nbytes  # which the gradient of the weight multiplies by
    for _ in range(3):
        for _ in range(4):
            found = evaluate(x).numpy()
            weight, bias = layer.weight.value.numpy().copy(), layer.bias.value.numpy()
            np.testing.assert_allclose(found, x.numpy() @ weight.T + bias, atol=1e-4)
        assert prepacked.prepacked_bytes() > x.nbytes
        train(x).numpy()


def test_a_frozen_layer_is_kept_while_others_are_trained() -> None:
    frozen, layer = tensor(1, DEEP, WIDE), nn.Linear(WIDE, 32, device="cpu")
    optimizer = optim.SGD(layer, lr=0.01)
    x = tensor(0, ROWS, DEEP)

    def step(x: it.Tensor, w: it.Tensor) -> it.Tensor:
        loss = it.mean(layer(it.tanh(x @ w)) ** 2)
        optimizer.step(loss.backward())
        return loss.detach()

    train = compile(step)
    losses = [train(x, frozen).item() for _ in range(8)]
    assert frozen.nbytes <= prepacked.prepacked_bytes() < 2 * frozen.nbytes + x.nbytes
    assert losses == sorted(losses, reverse=True)


def test_a_weight_that_is_written_in_place() -> None:
    x, w = tensor(0, ROWS, DEEP), tensor(1, DEEP, WIDE)
    f = compile(lambda x, w: x @ w)
    for n in range(12):
        if n % 4 == 0:
            w[n, :] = float(n)
        np.testing.assert_allclose(f(x, w).numpy(), product(x, w), atol=1e-3)


def test_operands_that_change_are_never_kept() -> None:
    f = compile(lambda x, w: x @ w)
    x = tensor(0, ROWS, DEEP)
    for seed in range(8):
        f(x, tensor(seed, DEEP, WIDE)).numpy()
        assert prepacked.prepacked_bytes() == 0


def test_there_is_a_most_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weights = tensor(0, ROWS, DEEP), [tensor(n, DEEP, WIDE) for n in range(3)]
    monkeypatch.setattr(prepacked, "MOST_BYTES", 2 * weights[0].nbytes + 40_000)
    f = compile(lambda x, w: x @ w)
    for w in weights:
        for _ in range(5):
            np.testing.assert_allclose(f(x, w).numpy(), product(x, w), atol=1e-4)
    assert 2 * weights[0].nbytes <= prepacked.prepacked_bytes() <= prepacked.MOST_BYTES


def test_where_memory_is_limited_there_are_none() -> None:
    x, w = tensor(0, ROWS, DEEP), tensor(1, DEEP, WIDE)
    f = compile(lambda x, w: x @ w)
    it.memory.limit("1GiB", "cpu")
    try:
        for _ in range(5):
            f(x, w).numpy()
    finally:
        it.memory.limit(None, "cpu")
    assert prepacked.prepacked_bytes() == 0


def test_threads_run_one_plan_at_once() -> None:
    x, w = tensor(0, ROWS, DEEP), tensor(1, DEEP, WIDE)
    f = compile(lambda x, w: x @ w)
    expected = f(x, w).numpy().tobytes()
    wrong: list[int] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for n in range(100):
            if f(x, w).numpy().tobytes() != expected:
                wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert prepacked.prepacked_bytes() > 0


FORKED = """
import os
import numpy as np
import ingle.tensor as it
from ingle.fusion import compile

def tensor(seed, *shape):
    return it.asarray(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))

def product(x, w):
    return x.numpy().astype(np.float64) @ w.numpy()

with it.device("cpu"):
    x, w = tensor(0, {rows}, {deep}), tensor(1, {deep}, {wide})
    f = compile(lambda x, w: x @ w)
    for _ in range(4):
        expected = f(x, w).numpy().tobytes()
    child = os.fork()
    if not child:
        other = tensor(2, {deep}, {wide})
        same = all(f(x, w).numpy().tobytes() == expected for _ in range(3))
        close = all(np.allclose(f(x, other).numpy(), product(x, other), atol=1e-3) for _ in "1234")
        os._exit(7 if same and close else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_has_them_too() -> None:
    """In a process of its own: this one has threads of other libraries."""
    code = FORKED.format(rows=ROWS, deep=DEEP, wide=WIDE)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "7\n", done.stderr


def test_only_the_products_that_read_them_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels beside them, numbers and products of other operands are taken over as they are."""
    added: list[str] = []
    for name in ("_add_nest", "_add_contraction"):
        method = getattr(TableBuilder, name)

        def noted(self: Any, *args: Any, method: Any = method, name: str = name) -> None:
            added.append(name)
            method(self, *args)

        monkeypatch.setattr(TableBuilder, name, noted)
    rng = np.random.default_rng(0)
    shapes = (ROWS, DEEP), (DEEP, WIDE), (WIDE, 64)
    draws = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    exact = [d.astype(np.float64) for d in draws]
    x, first, _ = (it.asarray(d, device="cpu") + 0.0 for d in draws)
    first.numpy()

    def function(x: Any, second: Any, n: float) -> Any:
        h = it.tanh(x @ first * n)
        return it.softmax(it.sin(h @ second + n) * n, axis=-1), it.cumulative_sum(h, axis=1) * n

    run = compile(function)
    for k in range(8):
        n = 0.5 + k / 8
        if k == 2:
            kinds = Counter(added)
            added.clear()
        # The second weight is another one each time, and never kept.
        other = it.asarray(draws[2] * (1.0 + k), device="cpu")
        found = [y.numpy() for y in run(x, other, n)]
        h = np.tanh(exact[0] @ exact[1] * n)
        z = np.sin(h @ (exact[2] * (1.0 + k)) + n) * n
        e = np.exp(z - z.max(axis=-1, keepdims=True))
        np.testing.assert_allclose(found[0], e / e.sum(axis=-1, keepdims=True), rtol=1e-3)
        np.testing.assert_allclose(found[1], np.cumsum(h, axis=1) * n, rtol=1e-4, atol=1e-4)
    assert kinds["_add_nest"] >= 1
    assert kinds["_add_contraction"] >= 2
    assert added == ["_add_contraction"]


def test_panels_go_when_their_module_has_no_names_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when Python goes down."""
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    panels, sizes = prepacked.Panels(pool.allocate(64)), prepacked._sizes
    assert sizes
    with monkeypatch.context() as patch:
        patch.setattr(prepacked, "_sizes", None)
        del panels
        gc.collect()
    assert not raised
    assert not sizes

"""Operations by themselves on more sizes than have plans of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.runtime import planning_work, sized_calls
from ingle.tensor.errors import OutOfRangeError
from ingle.testkit.bits import same_bits
from ingle_cpu.eager import any_size
from ingle_cpu.eager.sized_call import CpuSizedCall

WIDTH = 48
FUNCTIONS = {
    "linear": lambda x, w, b: it.linear(x, w, b),
    "matmul": lambda x, w, b: it.matmul(x, w.mT),
    "matmul by itself": lambda x, w, b: it.matmul(x, x.mT),
    "matmul of columns": lambda x, w, b: it.matmul(x.mT, x),
    "vectors": lambda x, w, b: it.reshape(x, (-1,)) @ it.reshape(x, (-1,)),
    "layer_norm": lambda x, w, b: it.layer_norm(x, x.shape[-1:], w[0], w[1]),
    "softmax": lambda x, w, b: it.softmax(x, axis=-1),
    "softmax of columns": lambda x, w, b: it.softmax(x, axis=-2),
    "log_softmax": lambda x, w, b: it.log_softmax(x, axis=-1),
    "sum": lambda x, w, b: it.sum(x, axis=-1),
    "sum of columns": lambda x, w, b: it.sum(x, axis=-2),
    "sum of all": lambda x, w, b: it.sum(x),
    "prod": lambda x, w, b: it.prod(x),
    "var": lambda x, w, b: it.var(x, axis=-2, correction=1),
    "mean": lambda x, w, b: it.mean(x),
    "logsumexp": lambda x, w, b: it.logsumexp(x, axis=-1, keepdims=True),
    "atan2 of a row": lambda x, w, b: it.atan2(x, w[0]),
    "outer": lambda x, w, b: it.outer(it.reshape(x, (-1,))[::9], b),
    "cumulative_sum": lambda x, w, b: it.cumulative_sum(x * x, axis=-1),
    "cummax": lambda x, w, b: it.cummax(x, axis=-1)[0],
    "any": lambda x, w, b: it.any(x > 2),
    "mse_loss": lambda x, w, b: it.mse_loss(x, x * 2),
    "cross_entropy": lambda x, w, b: it.cross_entropy(
        it.reshape(x, (-1, WIDTH)), it.argmax(b * it.reshape(x, (-1, WIDTH))[:, :32], axis=1)
    ),
    "batch_norm": lambda x, w, b: it.batch_norm(it.reshape(x, (-1, WIDTH)), w[0], it.abs(w[1])),
    "conv1d": lambda x, w, b: it.conv1d(it.reshape(x, (1, WIDTH, -1)), w[:, :, None]),
    "max_pool1d": lambda x, w, b: it.max_pool1d(it.reshape(x, (1, 4, -1)), 3, stride=2),
    "vector_norm": lambda x, w, b: it.linalg.vector_norm(x),
}
COUNTS = [2, 3, 4, 5, 7, 8, 9, 12, 16, 25, 31, 33, 64, 65, 100, 129, 200, 401, 1500, 1, 6]


def operands(rng, dtype, rows):
    draw = lambda *shape: it.asarray(rng.normal(size=shape).astype(dtype))  # noqa: E731
    return draw(*rows, WIDTH), draw(32, WIDTH), draw(32)


@pytest.fixture
def device(first_operations, monkeypatch):
    """The backend, which has seen no operation yet."""
    monkeypatch.setattr(sized_calls, "_of", type(sized_calls._of)())
    return first_operations


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_those_of_plans(name, dtype, device, monkeypatch):
    function, rng = FUNCTIONS[name], np.random.default_rng(0)
    for turn, count in enumerate(COUNTS):
        x, w, b = operands(rng, dtype, (count,) if turn % 3 else (1, count))
        if turn % 4 == 1 and name != "prod":
            x[..., 0, 1] = float("nan")
        found = function(x, w, b).numpy()
        with monkeypatch.context() as planned:
            planned.setattr(any_size.SizedOperation, "__call__", lambda *_: None)
            known, device._single_operations._known = device._single_operations._known, {}
            expected = function(x, w, b).numpy()
            device._single_operations._known = known
        assert same_bits(found, expected), f"{count} rows: {found} is not {expected}"


@pytest.mark.sampled(3, slow=1)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_new_lengths_are_not_planned(name, device, monkeypatch):
    function, rng = FUNCTIONS[name], np.random.default_rng(1)
    made = []
    plan = planning_work.compile_graph
    monkeypatch.setattr(planning_work, "compile_graph", lambda *args: made.append(1) or plan(*args))
    for count in range(40, 90):
        function(*operands(rng, "float32", (1, count))).numpy()
    if name not in ("cumulative_sum", "outer"):  # NumPy's kernels, and two operations by turns
        assert len(made) > 0
    assert len(made) <= 12, "three lengths, for each of a few operations or parts of a panel"


@pytest.mark.parametrize("name", ["linear", "layer_norm", "matmul by itself", "sum of columns"])
def test_operands_that_lie_otherwise_and_threads(name, device):
    function, rng = FUNCTIONS[name], np.random.default_rng(2)
    _, w, b = operands(rng, "float64", (2,))
    for count in range(2, 19):
        x = it.permute_dims(operands(rng, "float64", (count,))[0], (1, 0))
        x = it.flip(it.permute_dims(x, (1, 0)), axis=0)
        straight = it.asarray(x.numpy().copy())
        np.testing.assert_array_equal(function(x, w, b).numpy(), function(straight, w, b).numpy())
        columns = it.permute_dims(it.asarray(np.ascontiguousarray(x.numpy().T)), (1, 0))
        np.testing.assert_allclose(
            function(columns, w, b).numpy(), function(straight, w, b).numpy(), rtol=1e-12
        )
    cases = [operands(rng, "float64", (count,)) for count in range(20, 40)] * 2
    alone = [function(*case).numpy() for case in cases]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda case: function(*case).numpy(), cases))
    for a, t in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, t)


def test_wrong_indices_are_found_for_each_size(device, monkeypatch):
    used = []
    run = CpuSizedCall.__call__
    monkeypatch.setattr(
        CpuSizedCall, "__call__", lambda self, *args: used.append(1) or run(self, *args)
    )
    rng = np.random.default_rng(3)
    for count in range(5, 20):
        scores = it.asarray(rng.normal(size=(count, 4)).astype("float32"))
        classes = np.arange(count) % 4
        value = it.cross_entropy(scores, it.asarray(classes)).numpy()
        picked = it.log_softmax(scores, axis=1).numpy()[np.arange(count), classes]
        np.testing.assert_allclose(value, -picked.mean(), rtol=1e-6)
        classes[-1] = 4
        with pytest.raises(OutOfRangeError, match="4"):
            it.cross_entropy(scores, it.asarray(classes)).numpy()
    assert used


def test_sizes_that_grow_out_of_a_plan_get_another_one(device):
    rng = np.random.default_rng(4)
    for count in [*range(2, 9), *range(100, 107), *range(5000, 5007), *range(70_000, 70_005)]:
        x = rng.normal(size=count).astype("float32")
        np.testing.assert_allclose(it.sum(it.asarray(x)).numpy(), x.sum(dtype="f8"), atol=1e-3)
        both = it.asarray(rng.normal(size=(count, 3)).astype("float32"))
        expected = both.numpy().astype("f8").var(axis=0)
        np.testing.assert_allclose(it.var(both, axis=0).numpy(), expected, rtol=1e-5)


def test_empty_operands_and_single_elements_after_many_sizes(device):
    rng = np.random.default_rng(5)
    for count in [*range(3, 12), 0, 1, 2]:
        x = rng.normal(size=(count, 3)).astype("float32")
        np.testing.assert_allclose(it.sum(it.asarray(x), axis=0).numpy(), x.sum(0), atol=1e-5)
        np.testing.assert_allclose(it.sum(it.asarray(x.T), axis=0).numpy(), x.sum(1), atol=1e-5)
        np.testing.assert_allclose((it.asarray(x) @ it.asarray(x.T)).numpy(), x @ x.T, atol=1e-5)


def test_operations_on_shapes_of_their_own_are_planned(device):
    for count in range(2, 9):
        it.broadcast_to(it.ones(count), (3, count)).numpy()
    forms = device._single_operations._sized
    assert not any(form[0].operation.name == "broadcast_to" for form in forms)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "float16"])
@pytest.mark.parametrize("form", ["x @ y", "x @ y.mT", "x.mT @ y", "x @ y + z", "batch", "stack"])
def test_products_of_any_sizes_have_the_bits_of_plans(form, dtype, device, monkeypatch):
    rng = np.random.default_rng(6)

    def drawn(*shape):
        return it.asarray(rng.normal(size=shape).astype("float32")).astype(dtype)

    def product(m, n, k):
        match form:
            case "x @ y":
                return drawn(m, k) @ drawn(k, n)
            case "x @ y.mT":
                return drawn(m, k) @ drawn(n, k).mT
            case "x.mT @ y":
                return drawn(k, m).mT @ drawn(k, n)
            case "x @ y + z":
                return it.linear(drawn(m, k), drawn(n, k), drawn(n))
            case "batch":
                return drawn(3, m, k) @ drawn(3, k, n)
            case _:
                return drawn(1 + m % 5, m, k) @ drawn(k, n)

    used = []
    call = CpuSizedCall.__call__
    monkeypatch.setattr(CpuSizedCall, "__call__", lambda *a: (used.append(1), call(*a))[1])
    for turn in range(60):
        # One axis after the other varies, from a few to hundreds.
        m, n, k = (
            int(rng.integers(1, 9 if turn % 4 else 300)) if turn // 8 % 4 in (axis, 3) else 24
            for axis in range(3)
        )
        state = rng.bit_generator.state
        found = product(m, n, k).numpy()
        rng.bit_generator.state = state
        with monkeypatch.context() as planned:
            planned.setattr(any_size.SizedOperation, "__call__", lambda *_: None)
            known, device._single_operations._known = device._single_operations._known, {}
            expected = product(m, n, k).numpy()
            device._single_operations._known = known
        assert same_bits(found, expected), (m, n, k)
    assert used


@pytest.mark.slow
def test_weights_by_turns_have_plans_for_all_lengths_each(device, monkeypatch):
    rng, made = np.random.default_rng(5), []
    shapes = [(96, 32), (32, 32), (128, 32), (32, 128), (64, 32), (40, 128)]
    weights = [it.asarray(rng.normal(size=shape).astype(np.float32)) for shape in shapes]
    plan = planning_work.compile_graph
    monkeypatch.setattr(planning_work, "compile_graph", lambda *args: made.append(1) or plan(*args))
    for length in range(1, 90):
        for weight in weights:
            x = it.asarray(rng.normal(size=(1, length, weight.shape[1])).astype(np.float32))
            np.testing.assert_allclose(
                it.linear(x, weight).numpy(), x.numpy() @ weight.numpy().T, rtol=1e-4, atol=1e-4
            )
        if length == 40:
            made.clear()
    assert len(made) <= len(weights), "each was planned for itself at each length"


def test_sizes_that_take_turns_with_a_table_have_their_own_numbers(device):
    rng = np.random.default_rng(4)
    arrays = [rng.normal(size=(n, WIDTH)) for n in (2, 3, 5, 7, 11, 13)]
    for turn in range(4):
        for array in (*arrays, arrays[0], arrays[0]):
            found = it.sum(it.asarray(array * (turn + 1)), axis=-2).numpy()
            np.testing.assert_allclose(found, array.sum(0) * (turn + 1), rtol=1e-12)

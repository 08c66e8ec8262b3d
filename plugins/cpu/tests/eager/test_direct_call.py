"""Plans of one short kernel, which are called without what plans need otherwise."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import MethodType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, graph_of
from ingle.fusion.device import GraphPlans
from ingle.fusion.pipeline import compile_graph
from ingle.tensor.device import backend_of
from ingle.tensor.operation import OPERATIONS
from ingle_cpu.eager import direct_call, numpy_call
from ingle_cpu.memory import place_in_order

FUNCTIONS = {
    "sum": lambda x, n: it.sum(x, axis=-1),
    "softmax": lambda x, n: it.softmax(x, axis=-1),
    "product": lambda x, n: it.matmul(x, it.permute_dims(x, (1, 0))),
    "power": lambda x, n: it.abs(x) ** n,
    "clip": lambda x, n: it.clip(x, -n, n),
}


@pytest.fixture
def direct(first_operations: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is called straight, as where nothing ran before."""
    found: list[Any] = []
    made = direct_call.direct_call

    def noted(*args: Any) -> Any:
        call = made(*args)
        found.append(call)
        return call

    monkeypatch.setattr(direct_call, "direct_call", noted)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_those_of_plans_and_of_other_strides(name: str) -> None:
    function, rng = FUNCTIONS[name], np.random.default_rng(0)
    compiled = compile(function)
    array = rng.normal(size=(3, 5)).astype(np.float32)
    array[1, 1:3] = np.nan, -np.inf
    for n in (0.7, 0.7, 2.0, 2.5):  # the second call is straight, 2.0 may need another plan
        x = it.asarray(array, device="cpu")
        for given in (x, it.flip(x, axis=1), it.asarray(array[:, ::-1], device="cpu")):
            expected = compiled(given, n).numpy()
            np.testing.assert_array_equal(function(given, n).numpy(), expected)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 4)])
def test_it_serves_all_shapes(shape: tuple[int, ...], direct: list[Any]) -> None:
    array = np.random.default_rng(1).normal(size=shape)
    for _ in range(3):
        x = it.asarray(array, device="cpu")
        np.testing.assert_allclose(it.expm1(x).numpy(), np.expm1(array), rtol=1e-14)
        np.testing.assert_allclose(it.sum(x).item(), np.sum(array), rtol=1e-14)
    assert any(direct)


@pytest.mark.parametrize("count", [1, 4])
def test_a_result_may_be_all_of_the_memory_in_another_shape(
    count: int, direct: list[Any]
) -> None:  # fmt: skip
    rng = np.random.default_rng(4)
    weight, bias = rng.normal(size=(6, 4)), rng.normal(size=6)
    for shape in ((4,), (count, 4), (count, 1, 4), (2, count, 4)):
        direct.clear()
        for _ in range(4):
            array = rng.normal(size=shape)
            x, w, b = (it.asarray(a, device="cpu") for a in (array, weight, bias))
            found = it.linear(x, w, b)
            assert found.shape == (*shape[:-1], 6)
            np.testing.assert_allclose(found.numpy(), array @ weight.T + bias, rtol=1e-12)
        assert any(direct)
        np.testing.assert_allclose((found * 2.0).numpy(), 2 * found.numpy())


def test_results_have_memory_of_their_own() -> None:
    x = it.asarray(np.arange(4, dtype=np.float32), device="cpu")
    arrays = [it.sqrt(x * float(i)).numpy() for i in range(1, 9)]
    kept = [it.expm1(x) for _ in range(8)]
    for i, array in enumerate(arrays, 1):
        np.testing.assert_allclose(array, np.sqrt(np.arange(4, dtype=np.float32) * i), rtol=1e-6)
    assert len({a.__array_interface__["data"][0] for a in (k.numpy() for k in kept)}) == len(kept)


def test_threads_do_not_share_a_table() -> None:
    arrays = [np.full((3, 4), i, np.float32) for i in range(64)]

    def total(array: np.ndarray) -> float:
        return sum(it.logsumexp(it.asarray(array, device="cpu")).item() for _ in range(4)) / 4

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(total, arrays))
    np.testing.assert_allclose(found, np.arange(64) + np.log(12), rtol=1e-6)


def test_results_that_are_not_small_have_plans(direct: list[Any]) -> None:
    x = it.asarray(np.ones((1, 20_011), np.float32), device="cpu")
    for _ in range(3):
        assert it.cosh(x).numpy()[0, -1] == pytest.approx(np.cosh(1.0))
    assert not any(direct)


def test_a_kernel_may_take_operands_in_another_order(direct: list[Any]) -> None:
    rng = np.random.default_rng(2)
    x, weight = (rng.normal(size=s).astype(np.float32) for s in ((1, 3, 8), (2, 3, 3)))
    wanted = np.stack([(x[0, :, i : i + 3] * weight).sum((1, 2)) for i in range(6)], axis=-1)
    for _ in range(3):
        y = it.conv1d(it.asarray(x, device="cpu"), it.asarray(weight, device="cpu"))
        np.testing.assert_allclose(y.numpy()[0], wanted, rtol=1e-5, atol=1e-5)
    assert any(direct)


def planned() -> tuple[Any, Any]:
    """The device, and a plan that is called straight."""
    device: Any = backend_of("cpu").inner  # type: ignore[attr-defined]
    graph = graph_of(lambda x: it.sum(x, axis=1), it.ones((3, 5), device="cpu"))
    return device, compile_graph(device, device.fusion, graph, (), passing=False)


def test_what_asks_for_more_than_a_kernel_has_a_plan() -> None:
    device, plan = planned()
    linear = plan.linear_plan
    assert direct_call.direct_call(device, plan, place_in_order) is not None
    for more in (
        {"constants": [linear.own[0]]},
        {"arena": 64},
        {"checks": [(1, "sum: no")]},
        {"donors": {1: 0}},
        {"own": [*linear.own, *linear.own]},
        {"outputs": [*linear.outputs, *linear.outputs]},
        {"executables": [*linear.executables, *linear.executables]},
    ):
        other: Any = SimpleNamespace(linear_plan=linear._replace(**more), host=plan.host)
        assert direct_call.direct_call(device, other, place_in_order) is None
    none: Any = SimpleNamespace(linear_plan=None)
    assert direct_call.direct_call(device, none, place_in_order) is None


def test_a_table_serves_again() -> None:
    device, plan = planned()
    call = direct_call.direct_call(device, plan, place_in_order)
    assert call is not None
    ((executable, _),) = plan.linear_plan.executables
    x = device.upload(np.ones((3, 5), np.float32))
    for _ in range(3):
        (y,) = call(OPERATIONS["sum"].op(axis=(1,), keepdims=False), [x]) or ()
        assert device.download(y).tolist() == [5, 5, 5]
        assert len(executable.usual.idle) == 1


ARITHMETIC: dict[str, tuple[Callable[..., it.Tensor], str]] = {
    "add": (lambda x, y: x + y, "float32 int8 complex64 bfloat16"),
    "add_number": (lambda x, y: x + 3.0, "float32 float64 bfloat16"),
    "multiply_number": (lambda x, y: -2 * x, "float32 int64"),
    "divide": (lambda x, y: x / y, "float32 float64"),
    "floor_divide": (lambda x, y: x // y, "int32"),
    "maximum": (lambda x, y: it.maximum(x, y), "float64 int32"),
    "greater": (lambda x, y: x > y, "float32 int64"),
    "equal": (lambda x, y: x == 1.0, "float32"),
    "where": (lambda x, y: it.where(x > y, x, 0.0), "float32 float64"),
    "clip": (lambda x, y: it.clip(x, -1.0, 1.0), "float32 float64"),
    "relu": (lambda x, y: it.relu(x), "float32"),
    "floor": (lambda x, y: it.floor(x), "float32"),
    "cast": (lambda x, y: it.astype(x, "int32"), "int64"),
}


@pytest.mark.usefixtures("first_operations")
@pytest.mark.parametrize("name", ARITHMETIC)
def test_what_numpy_computed_often_has_its_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_call, "OFTEN", 3)
    calls = cast(Any, backend_of("cpu"))._at_once.calls
    function, dtypes = ARITHMETIC[name]
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf]
    for dtype in dtypes.split():
        numbers = rng.normal(size=16) * 4
        if dtype[0] not in "iu":
            numbers[: len(special)] = special
        whole = it.asarray(numbers, device="cpu").astype(dtype)
        for x in (whole[7], whole[:1], whole[:7], whole[::-1], it.reshape(whole, (2, 8))[:, ::3]):
            y = it.roll(x, 1)
            found = [function(x, y).numpy().tobytes() for _ in range(8)]
            assert len(set(found)) == 1, (dtype, x.shape)
    assert not all(isinstance(call, MethodType) for call in calls.known.values()), "all by NumPy"


@pytest.mark.usefixtures("first_operations")
def test_a_number_of_another_kind_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_call, "OFTEN", 3)
    x = it.asarray([1.0, 2.0], device="cpu")
    for number in (2.0, 0.1, np.inf, -0.0, 2**70, 1e300):
        with np.errstate(over="ignore"):
            expected = x.numpy() * np.float32(number)
        for _ in range(6):
            np.testing.assert_array_equal((x * number).numpy(), expected)


@pytest.mark.usefixtures("first_operations")
def test_shapes_that_are_spread_stay_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_call, "OFTEN", 3)
    x, y = it.asarray([[1.0], [2.0]], device="cpu"), it.asarray([10.0, 20.0], device="cpu")
    for _ in range(12):
        assert (x + y).tolist() == [[11.0, 21.0], [12.0, 22.0]]


def test_operands_that_numpy_made_are_called_straight_too() -> None:
    x = it.asarray(np.arange(12, dtype=np.float32).reshape(3, 4), device="cpu")
    for _ in range(12):
        for row in (x[1], x[:, 1], x[1:], it.permute_dims(x, (1, 0)), x[::2, ::-1]):
            np.testing.assert_allclose(it.expm1(row).numpy(), np.expm1(row.numpy()), rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (1, 5), (4, 1)])
def test_products_of_what_lies_transposed_are_called_straight(
    shape: tuple[int, ...], direct: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    x, y = (it.asarray(rng.normal(size=shape).astype("f"), device="cpu") for _ in range(2))
    others = [it.asarray(rng.normal(size=shape).astype("f"), device="cpu") for _ in range(2)]
    product = compile(lambda a, b: it.matmul(a.mT, b))
    for _ in range(12):
        (x.mT @ y).numpy()
        (x.mT @ y[..., ::-1]).numpy()
    assert any(direct)

    def refuse(*_: Any) -> Any:
        raise AssertionError("by its plans")

    with monkeypatch.context() as straight:
        straight.setattr(GraphPlans, "__call__", refuse)
        found = [(a.mT @ b).numpy() for a, b in ((x, y), others)]
    for result, (a, b) in zip(found, ((x, y), others), strict=True):
        np.testing.assert_array_equal(result, product(a, b).numpy())
    spread = it.broadcast_to(x[..., :1], shape)
    for b in (y, y[..., ::-1], spread):
        np.testing.assert_array_equal((x.mT @ b).numpy(), product(x, b).numpy())
        np.testing.assert_array_equal((spread.mT @ b).numpy(), product(spread, b).numpy())

"""Plans of one short kernel, which are called without what plans need otherwise."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, graph_of
from ingle.fusion.pipeline import compile_graph
from ingle.tensor.device import backend_of
from ingle_cpu.eager import direct_call
from ingle_cpu.eager.single_operation import SingleOperations

FUNCTIONS = {
    "sum": lambda x, n: it.sum(x, axis=-1),
    "softmax": lambda x, n: it.softmax(x, axis=-1),
    "product": lambda x, n: it.matmul(x, it.permute_dims(x, (1, 0))),
    "power": lambda x, n: it.abs(x) ** n,
    "clip": lambda x, n: it.clip(x, -n, n),
}


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is called straight, as where nothing ran before."""
    found: list[Any] = []
    made = direct_call.direct_call

    def noted(device: Any, plan: Any) -> Any:
        call = made(device, plan)
        found.append(call)
        return call

    monkeypatch.setattr(direct_call, "direct_call", noted)
    cpu: Any = backend_of("cpu").inner  # type: ignore[attr-defined]
    fresh = SingleOperations(cpu, cpu.fusion, cpu._single_operations._native)
    monkeypatch.setattr(cpu, "_single_operations", fresh)
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
    assert direct_call.direct_call(device, plan) is not None
    for more in (
        {"constants": [linear.own[0]]},
        {"arena": 64},
        {"checks": [(1, "sum: no")]},
        {"donors": {1: 0}},
        {"own": [*linear.own, *linear.own]},
        {"outputs": [*linear.outputs, *linear.outputs]},
        {"executables": [*linear.executables, *linear.executables]},
    ):
        other = SimpleNamespace(linear_plan=linear._replace(**more), host=plan.host)
        assert direct_call.direct_call(device, other) is None  # type: ignore[arg-type]
    assert direct_call.direct_call(device, SimpleNamespace(linear_plan=None)) is None  # type: ignore[arg-type]


def test_a_table_serves_again() -> None:
    device, plan = planned()
    call = direct_call.direct_call(device, plan)
    assert call is not None
    ((executable, _),) = plan.linear_plan.executables
    x = device.upload(np.ones((3, 5), np.float32))
    for _ in range(3):
        (y,) = call([x]) or ()
        assert device.download(y).tolist() == [5, 5, 5]
        assert len(executable.usual.idle) == 1

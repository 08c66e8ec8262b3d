"""Kernels that are compiled beside planning: by whom, and what becomes of failures."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, pipeline
from ingle.fusion.device.kernels import ContractionCall
from ingle.fusion.grouping import groups
from ingle.fusion.runtime import graph_plans, planning_work
from ingle.fusion.support import time_slices
from ingle.fusion.support.switching import OFTEN
from ingle_cpu.jit.engine import KernelCompileError
from ingle_cpu.launch import compiled_ahead, whole_entries
from ingle_cpu.matmul.code import driver_address
from ingle_cpu.matmul.joined_rows import problem_of, with_rows_joined
from ingle_cpu.matmul.problem import Problem

X = np.random.default_rng(4).standard_normal((6, 8))


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is found on disk."""
    monkeypatch.setattr(time_slices, "CORES", 2)
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)


def run() -> np.ndarray:
    """What kernels of several kinds compute."""

    def f(x: it.Tensor) -> it.Tensor:
        x = it.softmax(x, axis=-1) @ it.permute_dims(x, (1, 0))
        x = x / it.sum(x, axis=0)
        x = it.cumulative_sum(it.exp(x), axis=1)
        return it.sort(x, axis=0) @ x

    result: np.ndarray = compile(f)(it.asarray(X, device="cpu")).numpy()
    for thread in threads():
        thread.join()
    return result


def expected() -> np.ndarray:
    e = np.exp(X - X.max(axis=-1, keepdims=True))
    x = e / e.sum(axis=-1, keepdims=True) @ X.T
    x = np.cumsum(np.exp(x / x.sum(axis=0)), axis=1)
    result: np.ndarray = np.sort(x, axis=0) @ x
    return result


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "ingle-compile"]


def noted(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> list[str]:
    """The names of the threads that compile ahead, which do this first."""
    names: list[str] = []
    for name in ("kernel_of", "compile_code"):
        known = getattr(compiled_ahead, name)

        def compiling(*args: Any, known: Any = known) -> Any:
            names.append(threading.current_thread().name)
            then()
            return known(*args)

        monkeypatch.setattr(compiled_ahead, name, compiling)
    return names


def test_kernels_are_compiled_in_a_thread_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.getswitchinterval()
    seen: list[float] = []
    names = noted(monkeypatch, lambda: seen.append(sys.getswitchinterval()))
    np.testing.assert_allclose(run(), expected(), rtol=1e-12)
    assert len(names) >= compiled_ahead.FEWEST
    assert {*names} == {"ingle-compile"}
    assert seen == pytest.approx([OFTEN] * len(names), rel=0.1)
    assert sys.getswitchinterval() == before


def test_on_one_core_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "CORES", 1)
    names = noted(monkeypatch, lambda: None)
    np.testing.assert_allclose(run(), expected(), rtol=1e-12)
    assert not names


def test_what_fails_there_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KernelCompileError("not today")

    names = noted(monkeypatch, fail)
    np.testing.assert_allclose(run(), expected(), rtol=1e-12)
    assert names == ["ingle-compile"], "it gives up"


@pytest.mark.parametrize("contracts", [True, False])
def test_what_all_plans_run_is_begun_with_once_before_the_first_one_is_made(
    monkeypatch: pytest.MonkeyPatch, contracts: bool
) -> None:
    begun: list[list[Callable[[], object]]] = []
    planned: list[int] = []
    sequence = pipeline.kernel_sequence
    start = compiled_ahead._begun

    def of(wanted: Any) -> threading.Thread:
        begun.append([*wanted])
        return start(wanted)

    def planning(*args: Any) -> Any:
        planned.append(len(begun))
        return sequence(*args)

    compiled_ahead.basics_ahead.cache_clear()
    monkeypatch.setattr(compiled_ahead, "_begun", of)
    monkeypatch.setattr(pipeline, "kernel_sequence", planning)

    def f(x: it.Tensor) -> it.Tensor:
        for k in range(planning_work.AHEAD):
            x = it.tanh(x * 0.5) + float(k)
        return it.permute_dims(x, (1, 0)) @ x if contracts else x

    x = it.asarray(X, device="cpu")
    compile(f)(x).numpy(), compile(lambda x: f(x) + 1.0)(x).numpy()
    assert planned == [1, 1]
    assert begun == [[driver_address] if contracts else []]


def test_products_are_begun_before_it_is_known_what_becomes_of_their_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each as the plan will run it: code for another one would be made for nothing."""
    begun: list[set[Problem]] = []
    grouped: list[int] = []
    ahead = compiled_ahead.compiled_ahead

    def beginning(calls: Iterable[object]) -> threading.Thread | None:
        products = [c for c in calls if isinstance(c, ContractionCall)]
        begun.append({problem_of(with_rows_joined(c)) for c in products})
        return ahead(products)

    def grouped_now(*args: Any) -> Any:
        grouped.append(len(begun))
        return groups.grouped(*args)

    monkeypatch.setattr(compiled_ahead, "compiled_ahead", beginning)
    monkeypatch.setattr("ingle.fusion.schedule.scheduler.grouped", grouped_now)
    rng = np.random.default_rng(1)
    image = rng.standard_normal((2, 3, 9, 9)).astype(np.float32)
    kernel, weight = rng.standard_normal((8, 3, 3, 3)), rng.standard_normal((5, 8))

    def f(x: it.Tensor, k: it.Tensor, w: it.Tensor) -> it.Tensor:
        y = it.relu(it.conv2d(x, k, padding=1)) * 0.5
        y = it.mean(y @ it.permute_dims(y, (0, 1, 3, 2)), axis=(2, 3))
        return it.tanh(it.linear(y, w)) @ w @ it.permute_dims(w, (1, 0))

    given = [it.asarray(a, device="cpu", dtype="float32") for a in (image, kernel, weight)]
    found = compile(f)(*given).numpy()
    assert grouped[0] == 1
    first, last = begun
    assert first == last
    assert len(first) > 3
    np.testing.assert_allclose(found, f(*given).numpy(), rtol=1e-4, atol=1e-4)


def attending(x: it.Tensor) -> it.Tensor:
    for k in range(planning_work.AHEAD):
        x = it.tanh(x * 0.5) + float(k)
    return it.scaled_dot_product_attention(x, x, x, is_causal=True)


def multiplying(x: it.Tensor) -> it.Tensor:
    codes = it.asarray(np.arange(24, dtype=np.int8).reshape(3, 8), device="cpu")
    scale = it.full((3, 1), 0.5, dtype="float32", device="cpu")
    for k in range(planning_work.AHEAD):
        x = it.tanh(x * 0.5) + float(k)
    return it.quantized_linear(x, codes, scale, dtype="int8")


@pytest.mark.parametrize(("f", "shape"), [(attending, (2, 20, 8)), (multiplying, (3, 8))])
def test_templates_that_take_operations_whole_are_begun_before_the_plan_is_made(
    monkeypatch: pytest.MonkeyPatch, f: Callable[[it.Tensor], it.Tensor], shape: tuple[int, ...]
) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    begun: list[str] = []
    planned: list[list[str]] = []
    sequence = pipeline.kernel_sequence
    for name in ("attention_entries", "codes_entries"):
        known = getattr(whole_entries, name)

        def making(*args: Any, name: str = name, known: Any = known) -> Any:
            begun.append(f"{threading.current_thread().name} {name}")
            return known(*args)

        monkeypatch.setattr(whole_entries, name, making)

    def planning(*args: Any) -> Any:
        for thread in threads():
            thread.join()
        planned.append([*begun])
        return sequence(*args)

    monkeypatch.setattr(pipeline, "kernel_sequence", planning)
    found = compile(f)(it.asarray(x, device="cpu")).numpy()
    expected = "attention_entries" if f is attending else "codes_entries"
    assert planned == [[f"ingle-compile {expected}"]]
    np.testing.assert_allclose(found, f(it.asarray(x, device="cpu")).numpy(), rtol=1e-6, atol=1e-6)

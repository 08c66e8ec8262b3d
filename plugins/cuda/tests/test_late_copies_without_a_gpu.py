"""Activations that are computed again for the gradients of weights, on a GPU played by the
processor: less memory, the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_gpu import HostGpu, opened

import ingle.tensor as it
from ingle.fusion import compile, explain, pipeline
from ingle.fusion.grouping import late_copies

# Each kernel is a run of g++.
pytestmark = pytest.mark.slow

ROWS, WIDTH, INNER = 288, 256, 1024


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A played GPU."""
    with pytest.MonkeyPatch.context() as patch:
        yield opened(HostGpu(tmp_path_factory.mktemp("gpu")), "lategpu", patch)


@pytest.fixture(autouse=True)
def small(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of a test are large: memory of small values waits for calls beside them."""
    monkeypatch.setattr(device, "calls_beside", 0)
    monkeypatch.setattr(late_copies, "LEAST_BYTES", 1)
    monkeypatch.setattr(late_copies, "WAITING", 1)


@pytest.fixture
def arenas(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The memory between the kernels of each plan that is made."""
    found: list[int] = []
    original = pipeline.laid_out

    def laid_out(*args: Any, **options: Any) -> Any:
        schedule = original(*args, **options)
        found.append(schedule.arena)
        return schedule

    monkeypatch.setattr(pipeline, "laid_out", laid_out)
    return found


def drawn(layers: int) -> list[Any]:
    rng = np.random.default_rng(layers)
    shapes = [(2, ROWS // 2, WIDTH)]
    for _ in range(layers):
        shapes += [(WIDTH,), (WIDTH,), (INNER, WIDTH), (INNER,), (WIDTH, INNER), (WIDTH,)]
    values = [rng.normal(size=shape) * shape[-1] ** -0.5 for shape in shapes]
    return [it.asarray(v.astype(np.float32), device="lategpu") for v in values]


def step(x: Any, *weights: Any) -> list[Any]:
    """Residual blocks of a norm and two layers around a gelu, with all gradients."""
    leaves = [v.require_grad() for v in weights]
    with it.precision("bfloat16"):
        for at in range(0, len(leaves), 6):
            scale, shift, inner, bias, outer, added = leaves[at : at + 6]
            h = it.gelu(it.linear(it.layer_norm(x, (WIDTH,), scale, shift), inner, bias))
            x = x + it.linear(h, outer, added)
        found = it.mean(x * x).backward()
    return [x.detach(), *[found[v] for v in leaves]]


def run(layers: int) -> list[np.ndarray]:
    return [v.numpy() for v in compile(lambda *given: step(*given))(*drawn(layers))]


@pytest.mark.parametrize("layers", [2, 6])
def test_what_products_read_is_computed_again_for_their_gradients(
    device: Any, monkeypatch: pytest.MonkeyPatch, arenas: list[int], layers: int
) -> None:
    """An activation in the kernel of its gradient, a norm's rows likewise, with its own bits."""
    late = run(layers)
    steps = explain(compile(step), *drawn(layers), runs=0).steps
    gelus = [s for s in steps if s.operations.count("erf") and "block_sums" in s.operations]
    assert len(gelus) == layers
    less = arenas[-1]
    monkeypatch.setattr(late_copies, "LEAST_BYTES", 1 << 40)
    kept = run(layers)
    assert less < arenas[-1]
    for found, expected in zip(late, kept, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_waits_for_nothing_is_kept(
    device: Any, monkeypatch: pytest.MonkeyPatch, arenas: list[int]
) -> None:
    """Where products write little between the two that read a value, nothing is gained."""
    monkeypatch.setattr(late_copies, "WAITING", 1 << 20)
    run(2)
    kept = arenas[-1]
    monkeypatch.setattr(late_copies, "LEAST_BYTES", 1 << 40)
    run(2)
    assert arenas[-1] == kept


def test_what_something_else_reads_is_kept(device: Any) -> None:
    """A value that is an output, or read place by place, is there anyway."""

    def program(x: Any, w: Any, v: Any) -> list[Any]:
        h = it.tanh(x @ w)  # whose gradient is computed from itself
        y = h @ v
        for _ in range(3):
            y = it.tanh(y) @ w
        slope = (1.0 - h * h) * (y @ it.permute_dims(v, (1, 0)))
        return [it.permute_dims(h, (1, 0)) @ y, slope, it.permute_dims(x, (1, 0)) @ slope]

    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape) * 0.1 for shape in ((64, 32), (32, 32), (32, 32))]
    given = [it.asarray(v.astype(np.float32), device="lategpu").astype("bfloat16") for v in values]
    found = compile(program)(*given)
    wanted = program(*[it.asarray(v, device="numpy") for v in values])
    for one, other in zip(found, wanted, strict=True):
        right = other.numpy()
        most = 3e-2 * np.abs(right).max()
        np.testing.assert_allclose(one.astype(it.float32).numpy(), right, atol=most)

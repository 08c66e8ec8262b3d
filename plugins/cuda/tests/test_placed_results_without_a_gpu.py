"""Attention of cuDNN that reads and writes within what stands around it, on a GPU played by the
processor."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_cudnn import PACKAGE, Graph
from host_gpu import HostBackend, HostGpu, opened

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, explain
from ingle_cuda import cudnn
from ingle_cuda.attention import cudnn_attention as attention

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]

PLAYED = "played"
BATCH, PLACES, HEADS, EACH = 2, 8, 2, 8
WIDTH = HEADS * EACH


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    """The backend of the device `played`, with cuDNN."""
    monkeypatch.setattr(cudnn, "package", lambda: PACKAGE)
    monkeypatch.setattr(attention, "FEWEST", 1)
    gpu = HostGpu(folder)
    monkeypatch.setattr(Graph, "streams", gpu.streams)
    return opened(gpu, PLAYED, monkeypatch)


def given(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [(0.5 * rng.standard_normal(s)).astype(np.float16) for s in shapes]


def agree(f: Callable[..., Any], arrays: list[Any], runs: int = 3) -> None:
    """Compares what a compiled function gives with the same in float64."""
    compiled = compile(lambda *tensors: f(*tensors))
    wanted = f(*[it.asarray(a.astype(np.float64), device="numpy") for a in arrays])
    for _ in range(runs):
        found = compiled(*[it.asarray(a, device=PLAYED) for a in arrays])
        for one, other in zip(found, wanted, strict=True):
            most = 1e-2 * max(1.0, np.abs(other.numpy()).max())
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-2, atol=most)


def operations(f: Callable[..., Any], arrays: list[Any]) -> list[str]:
    steps = explain(f, *[it.asarray(a, device=PLAYED) for a in arrays], runs=0).steps
    return [" ".join(step.operations) for step in steps]


def heads(x: it.Tensor) -> it.Tensor:
    return it.permute_dims(it.reshape(x, (*x.shape[:2], HEADS, EACH)), (0, 2, 1, 3))


def rows(x: it.Tensor) -> it.Tensor:
    return it.reshape(it.permute_dims(x, (0, 2, 1, 3)), (x.shape[0], PLACES, -1))


def as_parts(x: it.Tensor) -> Any:
    return it.permute_dims(it.reshape(x, (*x.shape[:2], 3, HEADS, EACH)), (2, 0, 3, 1, 4))


def as_pieces(x: it.Tensor) -> Any:
    return [heads(part) for part in it.split(x, WIDTH, axis=-1)]


@pytest.mark.parametrize("batch", [1, BATCH])
@pytest.mark.parametrize("taken_apart", [as_parts, as_pieces])
def test_heads_of_one_product(
    backend: HostBackend, taken_apart: Callable[..., Any], batch: int
) -> None:
    """Neither results nor gradients are copied between attention and products."""

    def loss(x: it.Tensor, w: it.Tensor) -> it.Tensor:
        q, k, v = taken_apart(it.linear(x, w))
        out = it.linear(rows(it.scaled_dot_product_attention(q, k, v, is_causal=True)), w[:WIDTH])
        return it.sum(it.astype(out, "float32") ** 2)

    gradients = value_and_grad(loss, argnums=(0, 1))
    arrays = given((batch, PLACES, WIDTH), (3 * WIDTH, WIDTH))
    agree(lambda *x: [it.astype(t, "float32") for t in gradients(*x)[1]], arrays)
    whole = "scaled_dot_product_attention"
    found = operations(gradients, arrays)
    assert {f"{whole}_training", f"{whole}_gradient"} <= set(found)
    first, last = found.index(f"{whole}_training"), found.index(f"{whole}_gradient")
    assert found[first - 1].startswith("matmul")
    assert found[first + 1].startswith("matmul")
    assert found[last + 1].startswith("matmul")
    assert not any("reshape" in name for name in found)


def attended(x: it.Tensor) -> it.Tensor:
    return it.scaled_dot_product_attention(*as_parts(x))


def both_in_one(x: it.Tensor) -> list[it.Tensor]:
    return [rows(it.concat([attended(x), attended(it.flip(x, axis=0))], axis=1)) * 2.0]


def returned(x: it.Tensor) -> list[it.Tensor]:
    return [rows(attended(x))]


def returned_twice(x: it.Tensor) -> list[it.Tensor]:
    out = attended(x)
    return [out, rows(out), it.concat([rows(out), rows(out)], axis=1)]


def read_by_kernels(x: it.Tensor) -> list[it.Tensor]:
    out = attended(x)
    return [rows(out), it.tanh(out), it.sum(out, axis=(0, 2))]


def written_over(x: it.Tensor) -> list[it.Tensor]:
    """At a place that is computed, and at one that is known."""
    out = rows(attended(x))
    at = it.argmax(x[0, :, 0]) - it.argmax(x[0, :, 0])
    piece = it.ones((1, 2, 3), dtype=out.dtype, device=out.device)
    return [it.slice_update(out, piece, (0, at, 0)), it.slice_update(out, piece, (1, 2, 3))]


def attended_twice(x: it.Tensor) -> list[it.Tensor]:
    """The second reads the first where that lies."""
    out = rows(attended(x))
    return [rows(it.scaled_dot_product_attention(heads(out), heads(out), as_parts(x)[2]))]


@pytest.mark.parametrize(
    "f", [both_in_one, returned, returned_twice, read_by_kernels, written_over, attended_twice]
)
def test_whoever_else_reads_or_writes(backend: HostBackend, f: Callable[..., Any]) -> None:
    agree(f, given((BATCH, PLACES, 3 * WIDTH)))


def test_few_copies_are_left(backend: HostBackend) -> None:
    arrays = given((BATCH, PLACES, 3 * WIDTH))
    for f, copies in ((returned, 0), (attended_twice, 0), (returned_twice, 3)):
        names = operations(f, arrays)
        assert sum("reshape" in n or "concat" in n for n in names) <= copies, (f, names)


def test_rows_that_the_library_does_not_write(backend: HostBackend) -> None:
    """Their distance is no multiple of 16 bytes, so that these are copied as before."""

    def f(x: it.Tensor) -> list[it.Tensor]:
        return [it.concat([rows(attended(x)), x[:, :, :3]], axis=-1) * 2.0]

    agree(f, given((BATCH, PLACES, 3 * WIDTH)))


def test_a_state_is_not_given_to_the_library(backend: HostBackend) -> None:
    """New state lies where the old one lay, but not where the library writes: old memory may begin
    anywhere."""
    (x,) = given((BATCH, PLACES, 3 * WIDTH))
    state = it.Cell(it.zeros((BATCH, PLACES, WIDTH), dtype="float16", device=PLAYED))

    @compile
    def step(x: it.Tensor) -> it.Tensor:
        before = it.sum(it.astype(state.value, "float32"))
        state.value = rows(attended(x))
        return before

    wanted = returned(it.asarray(x.astype(np.float64), device="numpy"))[0].numpy()
    sums = [step(it.asarray(x, device=PLAYED)).item() for _ in range(4)]
    np.testing.assert_allclose(state.value.numpy(), wanted, rtol=2e-2, atol=1e-2)
    np.testing.assert_allclose(sums, [0.0, *[wanted.sum()] * 3], rtol=2e-2, atol=5e-2)

"""Operations of cuDNN within executables and graphs, on a GPU played by the processor."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_cudnn import PACKAGE, WORKSPACE, Graph
from host_gpu import HostBackend, HostGpu, opened

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, pipeline
from ingle.fusion.schedule import schedule
from ingle_cuda import cudnn
from ingle_cuda.attention import cudnn_attention as attention

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]

PLAYED = "played"


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    """The backend of the device `played`, with cuDNN."""
    monkeypatch.setattr(cudnn, "package", lambda: PACKAGE)
    monkeypatch.setattr(attention, "FEWEST", 1)
    gpu = HostGpu(folder)
    monkeypatch.setattr(Graph, "streams", gpu.streams)
    monkeypatch.setattr(Graph, "executed", [])
    return opened(gpu, PLAYED, monkeypatch)


def trained(device: str, steps: int) -> list[float]:
    """The losses of a small convolutional net."""
    it.random.seed(0)
    with it.device(device):
        model = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3),
            nn.Tanh(), nn.Flatten(), nn.Linear(16, 3),
        )  # fmt: skip
        rng = np.random.default_rng(1)
        x = it.asarray(rng.standard_normal((4, 2, 8, 8)).astype(np.float32))
        y = it.asarray([0, 1, 2, 1])
    optimizer = optim.Adam(model, lr=1e-2)

    @compile
    def step(x: it.Tensor, y: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(x), y)
        optimizer.step(loss.backward())
        return loss.detach()

    return [step(x, y).item() for _ in range(steps)]


def test_a_step_with_convolutions_is_replayed(backend: HostBackend) -> None:
    found = trained(PLAYED, 12)
    counts, asked = backend.gpu.counts, len(Graph.executed)
    assert {"conv_fprop", "conv_dgrad", "conv_wgrad"} == set(Graph.executed)
    assert counts["replayed"] > counts["captured"] > 0
    assert asked <= 5 * 4  # of 60; a graph is no question to the library
    np.testing.assert_allclose(found, trained("cpu", 12), rtol=2e-4)


def test_large_operations_work_in_the_arena(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing lives that anybody needs: what the library leaves there is nothing."""
    found: list[dict[int, int]] = []
    original = pipeline.laid_out

    def laid_out(*args: Any, **options: Any) -> Any:
        made = original(*args, **options)
        found.append(made.workspaces)
        return made

    monkeypatch.setattr(pipeline, "laid_out", laid_out)
    monkeypatch.setattr(schedule, "MOST_BYTES", WORKSPACE - 1)
    losses = trained(PLAYED, 6)
    assert max(len(places) for places in found) == 5  # two forward, three gradients
    np.testing.assert_allclose(losses, trained("cpu", 6), rtol=2e-4)


def test_results_of_the_library_lie_in_the_arena(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only kernels read is no value of its own."""
    made: list[Any] = []
    empty = type(backend).empty

    def noting(self: HostBackend, aval: Any) -> Any:
        made.append(aval.shape)
        return empty(self, aval)

    x = np.random.default_rng(0).standard_normal((2, 2, 9, 9)).astype(np.float32)
    w = np.random.default_rng(1).standard_normal((4, 2, 3, 3)).astype(np.float32)
    f = compile(lambda x, w: it.sum(it.tanh(it.conv(x * 2.0, w)), axis=(0, 2, 3)))
    given = [it.asarray(a, device=PLAYED) for a in (x, w)]
    monkeypatch.setattr(type(backend), "empty", noting)
    for _ in range(3):
        f(*given)
    made.clear()
    found = f(*given)
    assert [np.prod(shape) for shape in made] == [4]
    wanted = f(*[it.asarray(a, device="numpy") for a in (x, w)])
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4)


def test_images_of_halves_lie_with_channels_last(backend: HostBackend) -> None:
    """From one convolution to the next, in gradients, and where they come so."""
    rng = np.random.default_rng(0)
    image = rng.standard_normal((2, 7, 8, 16)).astype(np.float16)
    weights = [0.1 * rng.standard_normal(s) for s in ((24, 16, 3, 3), (16, 24, 3, 3))]

    def loss(x: it.Tensor, first: it.Tensor, second: it.Tensor) -> it.Tensor:
        h = it.tanh(it.conv(x, first, stride=2, padding=1))
        h = it.relu(h - it.mean(h, axis=(0, 2, 3), keepdims=True))
        return it.sum(it.astype(it.conv(h, second, padding=1), "float32") ** 2)

    f = compile(value_and_grad(loss, argnums=(0, 1, 2)))
    asked = set()
    for lying in (0, 1):
        x = it.asarray(image if lying else np.moveaxis(image, -1, 1).copy(), device=PLAYED)
        given = [it.asarray(w.astype(np.float16), device=PLAYED) for w in weights]
        for _ in range(4):
            value, slopes = f(it.permute_dims(x, (0, 3, 1, 2)) if lying else x, *given)
        exact = [it.asarray(w, device="numpy") for w in (np.moveaxis(image, -1, 1), *weights)]
        wanted, expected = value_and_grad(loss, argnums=(0, 1, 2))(
            *[it.astype(t, "float64") for t in exact]
        )
        np.testing.assert_allclose(value.item(), wanted.item(), rtol=2e-2)
        for found, right in zip(slopes, expected, strict=True):
            np.testing.assert_allclose(found.numpy(), right.numpy(), rtol=5e-2, atol=5e-2)
        for offer in [o for o in backend.offers if isinstance(o, cudnn.LibraryOffer)]:
            asked |= {key[0].operation.name for key, made in offer._prepared.items() if made}
    assert asked == {
        "conv_channels_last", "conv_input_gradient_channels_last", "conv_weight_gradient",
    }  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_its_gradient(backend: HostBackend, causal: bool) -> None:
    """Heads are views of one product, and the gradient reads what the forward pass kept."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 8, 24)).astype(np.float16)

    def loss(x: it.Tensor) -> it.Tensor:
        q, k, v = (
            it.permute_dims(it.reshape(part, (2, 8, 2, 4)), (0, 2, 1, 3))
            for part in it.split(it.tanh(x), 8, axis=-1)
        )
        out = it.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return it.sum(it.astype(out, "float32") ** 2)

    f = compile(value_and_grad(loss))
    for _ in range(4):
        value, slope = f(it.asarray(x, device=PLAYED))
    assert {"sdpa", "sdpa_backward"} == set(Graph.executed)
    wanted, expected = value_and_grad(loss)(it.asarray(x.astype(np.float64), device="numpy"))
    np.testing.assert_allclose(value.item(), wanted.item(), rtol=1e-2)
    np.testing.assert_allclose(slope.numpy(), expected.numpy(), rtol=5e-2, atol=5e-2)


def test_inputs_beside_multiples_of_sixteen_bytes(backend: HostBackend) -> None:
    """A view that is given is copied to where the library may read it."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal(2 * 81 * 3 + 5).astype(np.float32)
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    f = compile(lambda x, w: it.conv(x, w) * 2.0)
    there, weight = it.asarray(rows, device=PLAYED), it.asarray(w, device=PLAYED)
    for n in (0, 1, 2, 5, 1, 1, 1):
        part = it.reshape(there[n : n + 486], (2, 3, 9, 9))
        found = f(part, weight)
        given = it.asarray(rows[n : n + 486].reshape(2, 3, 9, 9), device="numpy")
        wanted = f(given, it.asarray(w, device="numpy"))
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_a_convolution_alone_is_a_graph_as_well(backend: HostBackend) -> None:
    """Asking the library takes Python as long as many kernels."""
    rng = np.random.default_rng(0)
    x, w = (
        it.asarray(rng.standard_normal(s).astype(np.float32), device=PLAYED)
        for s in ((2, 3, 9, 9), (4, 3, 3, 3))
    )
    f = compile(it.conv)
    results = [f(x, w).numpy() for _ in range(8)]
    assert backend.gpu.counts["replayed"] >= 4
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])

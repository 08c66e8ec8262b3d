"""Batch norms folded into layers, vectors of parameters, and statistics of several processes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.autodiff import custom_gradient
from ingle.nn.utils import parametrizations, parametrize
from ingle.tensor.errors import OperandError, ShapeError

RNG = np.random.default_rng(0)


def trained(norm: nn.Module, channels: int) -> Any:
    lows = {"weight": 0.5, "bias": -1.0, "running_mean": -1.0, "running_var": 0.5}
    for name, low in lows.items():
        values = RNG.uniform(low, low + 1.5, channels).astype(np.float32)
        getattr(norm, name).value = it.asarray(values)
    return norm.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "Linear"])
def test_the_fused_layer_computes_both(kind: str, bias: bool) -> None:
    torch = pytest.importorskip("torch")
    if kind == "Linear":
        layer, shape, rank = nn.Linear(6, 4, bias=bias).eval(), (5, 6), 1
        norm = trained(nn.BatchNorm1d(4), 4)
        fused = nn.utils.fuse_linear_bn_eval(layer, norm)
    else:
        rank = int(kind[-2])
        layer = getattr(nn, kind)(6, 4, 3, groups=2, bias=bias).eval()
        shape = (2, 6, *(5,) * rank)
        norm = trained(getattr(nn, f"BatchNorm{rank}d")(4), 4)
        fused = nn.utils.fuse_conv_bn_eval(layer, norm, transpose="Transpose" in kind)
    x = it.asarray(RNG.normal(size=shape).astype(np.float32))
    np.testing.assert_allclose(fused(x).numpy(), norm(layer(x)).numpy(), rtol=1e-4, atol=1e-5)
    if "Transpose" in kind:
        return  # PyTorch's own is wrong for groups
    arrays = [layer.weight, layer.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias]
    w, b, mean, var, scale, shift = (None if a is None else torch.tensor(a.numpy()) for a in arrays)
    made = torch.nn.utils.fuse_conv_bn_weights(w, b, mean, var, norm.eps, scale, shift)
    for ours, theirs in zip((fused.weight, fused.bias), made, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_whole_models_are_fused() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), trained(nn.BatchNorm2d(4), 4), nn.ReLU(),
        nn.Sequential(nn.Flatten(), nn.Linear(64, 5), trained(nn.BatchNorm1d(5), 5)),
    ).eval()  # fmt: skip
    x = it.asarray(RNG.normal(size=(2, 3, 6, 6)).astype(np.float32))
    before = model(x).numpy()
    fused = nn.utils.fuse_batch_norms(model)
    assert not any("BatchNorm" in type(m).__name__ for m in fused.modules())
    np.testing.assert_allclose(fused(x).numpy(), before, rtol=1e-4, atol=1e-5)
    with pytest.raises(OperandError, match=r"the layer, a Conv2d, is in training mode"):
        nn.utils.fuse_conv_bn_eval(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
    with pytest.raises(OperandError, match="has no running statistics"):
        nn.utils.fuse_conv_bn_eval(
            nn.Conv2d(1, 1, 1).eval(), nn.BatchNorm2d(1, track_running_stats=False).eval()
        )


def test_vectors_of_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    vector = nn.utils.parameters_to_vector(model.parameters())
    np.testing.assert_array_equal(
        vector.numpy(), np.concatenate([p.numpy().ravel() for p in model.parameters()])
    )
    nn.utils.vector_to_parameters(vector * 2.0, model.parameters())
    again = nn.utils.parameters_to_vector(model.parameters())
    np.testing.assert_array_equal(again.numpy(), 2 * vector.numpy())
    with pytest.raises(OperandError, match=r"must have shape \(11,\)"):
        nn.utils.vector_to_parameters(vector[:3], model.parameters())


def test_parametrized_parameters_are_cached() -> None:
    calls: list[int] = []

    class Counting(nn.Module):
        def forward(self, x: it.Tensor) -> it.Tensor:
            calls.append(1)
            return x * 1.0

    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Counting())
    calls.clear()
    with parametrize.cached():
        loss = it.sum(layer.weight @ layer.weight)
    assert len(calls) == 1
    assert len(loss.backward()) == 1
    layer.weight  # noqa: B018
    assert len(calls) == 2
    assert parametrizations.weight_norm(nn.Linear(2, 2)).weight.shape == (2, 2)


class Together:
    """A sum over threads that all take part, and its gradient, which is one as well."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count)
        self.parts: dict[int, np.ndarray] = {}

    def of(self, rank: int) -> Any:
        def summed(x: it.Tensor) -> it.Tensor:
            self.parts[rank] = x.detach().numpy()
            self.barrier.wait(30)
            total = sum(self.parts[r] for r in sorted(self.parts))
            self.barrier.wait(30)
            return it.asarray(total)

        @custom_gradient
        def reduce(x: it.Tensor) -> Any:
            return summed(x), summed

        return reduce


def test_statistics_of_all_parts_are_those_of_the_whole() -> None:
    x = RNG.normal(size=(10, 3, 4)).astype(np.float32)
    weights = RNG.normal(size=x.shape).astype(np.float32)
    whole = nn.BatchNorm1d(3)
    given = it.asarray(x).require_grad()
    out = whole(given)
    grads = it.sum(out * it.asarray(weights)).backward()
    together, found, cuts = Together(2), {}, [(0, 4), (4, 10)]
    layers = [
        nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3), together.of(r)) for r in (0, 1)
    ]

    def work(rank: int) -> None:
        begin, end = cuts[rank]
        part = it.asarray(x[begin:end]).require_grad()
        y = layers[rank](part)
        g = it.sum(y * it.asarray(weights[begin:end])).backward()
        found[rank] = y.numpy(), g[part].numpy(), g[layers[rank].weight].numpy()

    threads = [threading.Thread(target=work, args=(r,)) for r in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for i, want in ((0, out.numpy()), (1, grads[given].numpy())):
        got = np.concatenate([found[0][i], found[1][i]])
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        found[0][2] + found[1][2], grads[whole.weight].numpy(), rtol=1e-4, atol=1e-4
    )
    for name in ("running_mean", "running_var"):
        np.testing.assert_allclose(
            getattr(layers[0], name).numpy(), getattr(whole, name).numpy(), rtol=1e-4
        )
    with pytest.raises(ShapeError, match="reduce must return the sum over processes"):
        nn.SyncBatchNorm(3, reduce=lambda v: v[:1])(it.asarray(x))

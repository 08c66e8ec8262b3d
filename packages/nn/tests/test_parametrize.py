"""Parametrizations against PyTorch's: keys, values, gradients, and taking them away."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.fusion import compile
from ingle.nn.utils import parametrizations, parametrize
from ingle.tensor.errors import ArgumentError, IngleError, ShapeError

torch = pytest.importorskip("torch")
theirs_of = torch.nn.utils.parametrizations

CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "weight": ("weight_norm", ("Linear", 4, 3), {}, (2, 4)),
    "weight of one": ("weight_norm", ("Linear", 4, 3), {"dim": None}, (2, 4)),
    "weight of convolution": ("weight_norm", ("Conv2d", 2, 3, 2), {"dim": 1}, (1, 2, 4, 4)),
    "spectral": ("spectral_norm", ("Linear", 4, 3), {}, (2, 4)),
    "spectral of transposed": (
        "spectral_norm", ("ConvTranspose1d", 2, 3, 2), {"n_power_iterations": 3, "eps": 1e-6},
        (1, 2, 4),
    ),
    "orthogonal": ("orthogonal", ("Linear", 3, 3), {}, (2, 3)),
    "orthogonal by Cayley": (
        "orthogonal", ("Linear", 3, 4), {"orthogonal_map": "cayley"}, (2, 3),
    ),
    "orthogonal, tall": ("orthogonal", ("Linear", 3, 5), {}, (2, 3)),
    "orthogonal, wide": ("orthogonal", ("Linear", 5, 2), {}, (2, 5)),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_equals_pytorch(case: str) -> None:
    kind, (name, *sizes), options, shape = CASES[case]
    ours = getattr(nn, name)(*sizes).to(dtype="float64")
    theirs = getattr(torch.nn, name)(*sizes).double()
    ours = getattr(parametrizations, kind)(ours, **options)
    theirs = getattr(theirs_of, kind)(theirs, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    if kind == "orthogonal":
        q = ours.weight.numpy()
        q = q if len(q) >= q.shape[1] else q.T
        np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-12)
        p = theirs.parametrizations.weight.original
        tall = p.data if p.shape[0] >= p.shape[1] else p.data.mT
        tall += 0.3 * torch.rand(tall.shape, dtype=torch.float64).tril(-1)
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=shape)
    for train in (True, True, False):
        ours.train(train)
        theirs.train(train)
        theirs.zero_grad()
        out, want = ours(it.asarray(x)), theirs(torch.tensor(x))
        np.testing.assert_allclose(out.numpy(), want.detach().numpy(), rtol=1e-9)
        (want * want).sum().backward()
        grads = (out * out).sum().backward()
        for path, p in theirs.named_parameters():
            got = grads[dict(ours.named_parameters())[path]].numpy()
            np.testing.assert_allclose(got, p.grad.numpy(), rtol=1e-8, atol=1e-12)


class Positive(nn.Module):
    def forward(self, x: it.Tensor) -> it.Tensor:
        return it.exp(x)

    def right_inverse(self, y: it.Tensor) -> it.Tensor:
        return it.log(y)


class Doubled(nn.Module):
    def forward(self, x: it.Tensor) -> it.Tensor:
        return x * 2.0

    def right_inverse(self, y: it.Tensor) -> it.Tensor:
        return y / 2.0


def test_written_read_stacked_copied_and_removed() -> None:
    layer = nn.Linear(3, 2, weight_init=nn.init.Constant(4.0))
    parametrize.register_parametrization(layer, "weight", Positive())
    parametrize.register_parametrization(layer, "weight", Doubled())
    np.testing.assert_allclose(layer.weight.numpy(), 4.0, rtol=1e-6)
    np.testing.assert_allclose(layer.parametrizations.weight.original.numpy(), np.log(2.0))  # type: ignore[attr-defined]
    layer.weight = it.ones((2, 3)) * 6.0  # type: ignore[assignment]
    np.testing.assert_allclose(layer.weight.numpy(), 6.0, rtol=1e-6)
    other = copy.deepcopy(layer)
    other.weight = it.ones((2, 3))  # type: ignore[assignment]
    np.testing.assert_allclose(layer.weight.numpy(), 6.0, rtol=1e-6)
    assert parametrize.is_parametrized(layer, "weight")
    assert isinstance(layer, nn.Linear)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(layer.weight.numpy(), 6.0, rtol=1e-6)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_stand_alone(copied: Any) -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    other = copied(layer)
    want = layer(it.ones((1, 3))).numpy()
    parametrize.remove_parametrizations(layer, "weight")
    np.testing.assert_allclose(other(it.ones((1, 3))).numpy(), want, rtol=1e-6)
    assert parametrize.is_parametrized(other, "weight")
    assert type(other).__name__ == "ParametrizedLinear"


def test_compiled_training() -> None:
    layer: Any = parametrizations.spectral_norm(nn.Linear(3, 3))
    original = layer.parametrizations.weight.original
    step = compile(lambda x: it.sum(layer(x) ** 2).backward()[original])
    x = it.ones((2, 3))
    for _ in range(4):
        assert step(x).shape == (3, 3)
    assert step.recordings <= 2


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: parametrizations.weight_norm(nn.Linear(3, 2), "gain"), ArgumentError,
         "Linear has no parameter 'gain'; it has weight, bias"),
        (lambda: parametrizations.spectral_norm(nn.ReLU()), ArgumentError, "it has none"),
        (lambda: parametrizations.spectral_norm(nn.Linear(3, 2), n_power_iterations=0),
         ArgumentError, "at least 1, got 0"),
        (lambda: parametrizations.spectral_norm(nn.Linear(3, 2), dim=2), ArgumentError, "dim=2"),
        (lambda: parametrize.register_parametrization(nn.Linear(3, 2), "weight", nn.Flatten(0)),
         ShapeError, "pass unsafe=True"),
        (lambda: parametrize.remove_parametrizations(nn.Linear(3, 2), "weight"), ArgumentError,
         "Linear.weight has none"),
        (lambda: parametrize.remove_parametrizations(
            parametrizations.weight_norm(nn.Linear(3, 2)), "weight", False), ArgumentError,
         "made of 2 tensors"),
    ],
)  # fmt: skip
def test_bad_input(make: Any, kind: type[IngleError], message: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)

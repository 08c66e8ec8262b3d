"""Layers that learn their sizes, beside PyTorch's, and what happens before they do."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.tensor.errors import OperandError, ShapeError

CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "LazyLinear": ((3,), {"bias": False}, (2, 4)),
    "LazyConv1d": ((4, 3), {"groups": 2}, (2, 6, 8)),
    "LazyConv2d": ((4, 3), {"padding": 1}, (2, 3, 6, 6)),
    "LazyConv3d": ((4, 2), {}, (1, 3, 4, 4, 4)),
    "LazyConvTranspose1d": ((4, 3), {}, (2, 6, 8)),
    "LazyConvTranspose2d": ((4, 3), {"groups": 2}, (2, 6, 5, 5)),
    "LazyConvTranspose3d": ((4, 2), {}, (1, 3, 3, 3, 3)),
    "LazyBatchNorm1d": ((), {"eps": 1e-3}, (4, 3)),
    "LazyBatchNorm2d": ((), {}, (2, 3, 4, 4)),
    "LazyBatchNorm3d": ((), {"affine": False}, (2, 3, 2, 2, 2)),
    "LazyInstanceNorm1d": ((), {"affine": True}, (2, 3, 6)),
    "LazyInstanceNorm2d": ((), {"track_running_stats": True}, (2, 3, 4, 4)),
    "LazyInstanceNorm3d": ((), {}, (2, 3, 2, 3, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_they_become_pytorchs_layers(name: str) -> None:
    torch = pytest.importorskip("torch")
    args, options, shape = CASES[name]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    ours, theirs = getattr(nn, name)(*args, **options), getattr(torch.nn, name)(*args, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    want = theirs(torch.tensor(x))
    before = {id(cell) for cell in [*ours.parameters(), *ours.buffers()]}
    ours(it.asarray(x))
    assert type(ours).__name__ == name.removeprefix("Lazy") == type(theirs).__name__
    assert {id(cell) for cell in [*ours.parameters(), *ours.buffers()]} == before
    assert {type(p) for p in ours.parameters()} <= {nn.Parameter}
    again = getattr(torch.nn, name.removeprefix("Lazy"))
    assert repr(ours).partition("(")[0] == again.__name__
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_allclose(
        ours.eval()(it.asarray(x)).numpy(), theirs.eval()(torch.tensor(x)).detach().numpy(),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    assert want.shape == ours(it.asarray(x)).shape


def test_an_optimizer_may_come_first() -> None:
    it.random.seed(0)  # whatever other tests have drawn
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))
    assert model[0].has_uninitialized_params()
    optimizer = optim.Adam(model, lr=0.1)
    x, y = it.random.normal((16, 5)), it.arange(16) % 2
    model(x)

    @compile
    def step(x: it.Tensor, y: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(model(x), y)
        optimizer.step(loss.backward())
        return loss

    losses = [step(x, y).item() for _ in range(30)]
    assert losses[-1] < 0.3 * losses[0]
    assert model.count_parameters() == 5 * 8 + 8 + 8 * 2 + 2


def test_states_copies_and_files(tmp_path: Path) -> None:
    made = nn.Sequential(nn.Linear(5, 3))
    nn.save(tmp_path / "m.safetensors", made)
    lazy = nn.Sequential(nn.LazyLinear(3))
    other = copy.deepcopy(lazy)
    nn.load(tmp_path / "m.safetensors", lazy)
    x = it.ones((2, 5))
    np.testing.assert_array_equal(lazy(x).numpy(), made(x).numpy())
    assert other[0].has_uninitialized_params()
    other.load_state_dict(made.state_dict())
    with pytest.raises(ShapeError, match=r"needs weight of shape \(3, 4\)"):
        other(it.ones((2, 4)))


def test_bad_input() -> None:
    with pytest.raises(TypeError, match="LazyLinear: missing a required argument: 'out_features'"):
        nn.LazyLinear()
    with pytest.raises(ShapeError, match=r"LazyConv2d: x has too few axes, got shape \(3,\)"):
        nn.LazyConv2d(3, 3)(it.ones(3))
    layer = nn.LazyLinear(2)
    with pytest.raises(OperandError, match="call the model once before"):
        compile(layer)(it.ones((2, 3)))
    assert compile(layer)(layer(it.ones((2, 3)))[:, :1] * it.ones((2, 3))).shape == (2, 2)

"""Small models in mixed precision beside PyTorch's autocast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(16, 1, 8, 8)).astype(np.float32)
ROWS = RNG.normal(size=(16, 6, 16)).astype(np.float32)
LABELS = np.arange(16) % 10


def dense(n):  # type: ignore[no-untyped-def]
    return n.Sequential(n.Flatten(), n.Linear(64, 32), n.LayerNorm(32), n.ReLU(), n.Linear(32, 10))


def convolutional(n):  # type: ignore[no-untyped-def]
    return n.Sequential(
        n.Conv2d(1, 8, 3, padding=1), n.BatchNorm2d(8), n.ReLU(), n.MaxPool2d(2), n.Flatten(),
        n.Linear(128, 32), n.LayerNorm(32), n.GELU(), n.Linear(32, 10),
    )  # fmt: skip


def transformer(n):  # type: ignore[no-untyped-def]
    layer = n.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    return n.Sequential(n.TransformerEncoder(layer, 2), n.Flatten(), n.Linear(96, 10))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    ("make", "data"),
    [
        (dense, IMAGES),
        pytest.param(convolutional, IMAGES, marks=pytest.mark.slow),
        pytest.param(transformer, ROWS, marks=pytest.mark.slow),
    ],
)
def test_trains_as_pytorch_does(
    make: Callable[..., nn.Module], data: np.ndarray, dtype: str
) -> None:
    it.random.seed(0)
    model, theirs = make(nn), make(torch.nn)
    theirs.load_state_dict(
        {k: torch.tensor(v.numpy()) for k, v in model.state_dict().items()}, strict=False
    )
    scaler, scaling = optim.LossScaler(2.0**10), torch.amp.GradScaler("cpu", 2.0**10)
    optimizer = optim.AdamW(model, lr=1e-2)
    torch_optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2)

    @compile
    def step(x, y):  # type: ignore[no-untyped-def]
        with it.precision(dtype):
            loss = it.cross_entropy(model(x), y)
        scaler.step(optimizer, scaler.scale(loss).backward())
        scaler.update()
        return loss

    x, y = it.asarray(data), it.asarray(LABELS)
    ours, expected = [], []
    for _ in range(6):
        ours.append(step(x, y).item())
        torch_optimizer.zero_grad()
        with torch.autocast("cpu", dtype=getattr(torch, dtype)):
            out = theirs(torch.tensor(data))
            loss = torch.nn.functional.cross_entropy(out.float(), torch.tensor(LABELS))
        scaling.scale(loss).backward()
        scaling.step(torch_optimizer)
        scaling.update()
        expected.append(loss.item())
    # Roundings to half types differ, and grow from step to step.
    np.testing.assert_allclose(ours[:2], expected[:2], rtol=4e-3)
    np.testing.assert_allclose(ours, expected, rtol=6e-2)
    assert {p.dtype for p in model.parameters()} == {it.float32}


def test_outputs_of_layers_are_rounded_where_pytorch_rounds() -> None:
    it.random.seed(1)
    layer, conv = nn.Linear(16, 8), nn.Conv2d(1, 4, 3)
    x = it.asarray(ROWS)
    with it.precision("bfloat16"):
        ours, images = layer(x), conv(it.asarray(IMAGES))
        up = nn.ConvTranspose2d(4, 2, 2, stride=2)(images)
    weight, bias = (torch.tensor(v.numpy()) for v in (layer.weight.raw, layer.bias.raw))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        theirs = torch.nn.functional.linear(torch.tensor(ROWS), weight, bias)
    assert ours.dtype is images.dtype is up.dtype is it.bfloat16
    assert theirs.dtype is torch.bfloat16
    np.testing.assert_allclose(
        ours.astype("float32").numpy(), theirs.float().detach().numpy(), rtol=2**-7, atol=1e-3
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers(kind: str) -> None:
    it.random.seed(2)
    layer = getattr(nn, kind)(16, 8, num_layers=2)
    plain, _ = layer(it.asarray(ROWS))
    with it.precision("bfloat16"):
        mixed, _ = layer(it.asarray(ROWS))
        grads = it.sum(mixed).backward()
    np.testing.assert_allclose(mixed.astype("float32").numpy(), plain.numpy(), atol=2e-2)
    assert {g.dtype for g in grads.tensors()} == {it.float32}

"""Layers against PyTorch's: state-dict keys, outputs, gradients, statistics, printed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn

torch = pytest.importorskip("torch")
tnn = torch.nn

LAYERS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "linear": (nn.Linear(5, 3), tnn.Linear(5, 3), (4, 5)),
    "linear of rank 4": (nn.Linear(5, 3), tnn.Linear(5, 3), (2, 3, 4, 5)),
    "linear of rank 1": (nn.Linear(5, 3, bias=False), tnn.Linear(5, 3, bias=False), (5,)),
    "linear of no rows": (nn.Linear(5, 3), tnn.Linear(5, 3), (0, 5)),
    "conv1d": (nn.Conv1d(4, 6, 3, 2, 1, 2, 2), tnn.Conv1d(4, 6, 3, 2, 1, 2, 2), (2, 4, 17)),
    "conv2d": (nn.Conv2d(3, 4, (3, 5), bias=False), tnn.Conv2d(3, 4, (3, 5), bias=False),
               (2, 3, 8, 9)),
    "conv2d strided": (nn.Conv2d(4, 4, 3, (2, 1), (1, 0), 1, 4),
                       tnn.Conv2d(4, 4, 3, (2, 1), (1, 0), 1, 4), (2, 4, 8, 9)),
    "conv2d same": (nn.Conv2d(2, 4, 3, padding="same"), tnn.Conv2d(2, 4, 3, padding="same"),
                    (2, 2, 8, 5)),
    "conv3d": (nn.Conv3d(2, 3, 2), tnn.Conv3d(2, 3, 2), (2, 2, 4, 5, 3)),
    "max_pool1d": (nn.MaxPool1d(3, 2, 1), tnn.MaxPool1d(3, 2, 1), (2, 3, 11)),
    "max_pool2d": (nn.MaxPool2d(2), tnn.MaxPool2d(2), (2, 3, 8, 7)),
    "max_pool2d ceil": (nn.MaxPool2d((3, 2), 2, 1, 1, ceil_mode=True),
                        tnn.MaxPool2d((3, 2), 2, 1, 1, ceil_mode=True), (2, 3, 8, 7)),
    "avg_pool1d": (nn.AvgPool1d(3, 2, 1, True, False), tnn.AvgPool1d(3, 2, 1, True, False),
                   (2, 3, 10)),
    "avg_pool2d": (nn.AvgPool2d(2, padding=1), tnn.AvgPool2d(2, padding=1), (2, 3, 8, 7)),
    "flatten": (nn.Flatten(), tnn.Flatten(), (2, 3, 4)),
    "flatten some": (nn.Flatten(0, 1), tnn.Flatten(0, 1), (2, 3, 4)),
    "unflatten": (nn.Unflatten(-1, (2, 2)), tnn.Unflatten(-1, (2, 2)), (3, 4)),
    "identity": (nn.Identity(), tnn.Identity(), (3,)),
    "dropout in eval": (nn.Dropout(0.5).eval(), tnn.Dropout(0.5).eval(), (3, 4)),
}  # fmt: skip
ACTIVATIONS: dict[str, tuple[Any, Any]] = {
    name: (getattr(nn, name)(), getattr(tnn, name)())
    for name in (
        "ReLU", "ReLU6", "SELU", "Sigmoid", "LogSigmoid", "SiLU", "Mish", "Tanh", "Tanhshrink",
        "Softsign", "Hardsigmoid", "Hardswish", "LeakyReLU", "ELU", "CELU", "GELU", "Hardtanh",
        "Hardshrink", "Softshrink", "Softplus", "PReLU", "GLU",
    )
}  # fmt: skip
ACTIVATIONS |= {
    "GELU tanh": (nn.GELU("tanh"), tnn.GELU("tanh")),
    "LeakyReLU 0.3": (nn.LeakyReLU(0.3), tnn.LeakyReLU(0.3)),
    "ELU 2": (nn.ELU(2.0), tnn.ELU(2.0)),
    "CELU 2": (nn.CELU(2.0), tnn.CELU(2.0)),
    "Hardtanh": (nn.Hardtanh(-0.5, 2.0), tnn.Hardtanh(-0.5, 2.0)),
    "Softplus": (nn.Softplus(2.0, 1.0), tnn.Softplus(2.0, 1.0)),
    "Threshold": (nn.Threshold(0.2, -7.0), tnn.Threshold(0.2, -7.0)),
    "PReLU 6": (nn.PReLU(6), tnn.PReLU(6)),
    "Softmax": (nn.Softmax(1), tnn.Softmax(1)),
    "Softmin": (nn.Softmin(0), tnn.Softmin(0)),
    "LogSoftmax": (nn.LogSoftmax(), tnn.LogSoftmax(-1)),
}
LAYERS |= {name: (*pair, (3, 6)) for name, pair in ACTIVATIONS.items()}


def taken(ours: nn.Module, theirs: Any) -> None:
    """Gives our layer PyTorch's values, after comparing names, shapes and dtypes."""
    given = theirs.state_dict()
    assert list(ours.state_dict()) == list(given)
    for name, value in ours.state_dict().items():
        assert value.shape == tuple(given[name].shape)
        assert value.dtype.name == str(given[name].dtype).removeprefix("torch.")
    ours.load_state_dict(given)


def close(ours: Any, theirs: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape
    assert ours.dtype.dtype == theirs.dtype
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=rtol, atol=atol)


def run_both(ours: nn.Module, theirs: Any, x: np.ndarray) -> None:
    """Outputs, and gradients of a weighted sum by the input and all parameters."""
    theirs.zero_grad()
    mine, torchs = it.asarray(x).require_grad(), torch.tensor(x, requires_grad=True)
    out, expected = ours(mine), theirs(torchs)
    close(out, expected)
    weights = np.linspace(-1, 1, int(np.prod(out.shape)), dtype=np.float32).reshape(out.shape)
    expected.backward(torch.tensor(weights))
    grads = out.backward(it.asarray(weights))
    close(grads[mine], torchs.grad)
    for name, parameter in theirs.named_parameters():
        close(grads[dict(ours.named_parameters())[name]], parameter.grad, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_equals_pytorch(name: str) -> None:
    ours, theirs, shape = LAYERS[name]
    taken(ours, theirs)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    run_both(ours, theirs, x)


@pytest.mark.parametrize("name", ["linear", "conv1d", "conv2d", "Hardtanh"])
def test_printed_as_pytorchs(name: str) -> None:
    ours, theirs, _ = LAYERS[name]
    assert repr(ours) == repr(theirs)


NORMS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "layer": (nn.LayerNorm(6), tnn.LayerNorm(6), (3, 5, 6)),
    "layer of two axes": (nn.LayerNorm((5, 6), 1e-3), tnn.LayerNorm((5, 6), 1e-3), (3, 5, 6)),
    "layer plain": (nn.LayerNorm(6, elementwise_affine=False),
                    tnn.LayerNorm(6, elementwise_affine=False), (3, 6)),
    "layer without bias": (nn.LayerNorm(6, bias=False), tnn.LayerNorm(6, bias=False), (3, 6)),
    "batch": (nn.BatchNorm1d(4), tnn.BatchNorm1d(4), (7, 4)),
    "batch of rows": (nn.BatchNorm1d(4, 1e-2, 0.3), tnn.BatchNorm1d(4, 1e-2, 0.3), (3, 4, 5)),
    "batch of images": (nn.BatchNorm2d(4), tnn.BatchNorm2d(4), (3, 4, 5, 6)),
    "batch cumulative": (nn.BatchNorm2d(4, momentum=None), tnn.BatchNorm2d(4, momentum=None),
                         (3, 4, 2, 2)),
    "batch plain": (nn.BatchNorm1d(4, affine=False), tnn.BatchNorm1d(4, affine=False), (7, 4)),
    "batch untracked": (nn.BatchNorm1d(4, track_running_stats=False),
                        tnn.BatchNorm1d(4, track_running_stats=False), (7, 4)),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NORMS)
def test_norms_in_training_and_in_use(name: str) -> None:
    ours, theirs, shape = NORMS[name]
    rng = np.random.default_rng(1)
    for parameter in theirs.parameters():
        parameter.data = torch.tensor(rng.normal(size=parameter.shape).astype(np.float32))
    taken(ours, theirs)
    for _ in range(3):
        run_both(ours, theirs, (rng.normal(size=shape) * 3 + 1).astype(np.float32))
        for key, value in theirs.state_dict().items():
            close(ours.state_dict()[key], value)
    ours.eval()
    theirs.eval()
    run_both(ours, theirs, rng.normal(size=shape).astype(np.float32))
    for key, value in theirs.state_dict().items():
        close(ours.state_dict()[key], value)


@pytest.mark.parametrize("padding_idx", [None, 2, -1])
def test_embedding(padding_idx: int | None) -> None:
    ours, theirs = nn.Embedding(7, 4, padding_idx), tnn.Embedding(7, 4, padding_idx)
    if padding_idx is not None:
        assert ours.weight.raw.numpy()[padding_idx].tolist() == [0.0] * 4
    taken(ours, theirs)
    indices = np.asarray([[1, 2, 6], [6, 6, 0]])
    out, expected = ours(it.asarray(indices)), theirs(torch.tensor(indices))
    close(out, expected)
    weights = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    expected.backward(torch.tensor(weights))
    grads = out.backward(it.asarray(weights))
    close(grads[ours.weight], theirs.weight.grad)


def test_dropout_in_training() -> None:
    layer = nn.Dropout(0.25, generator=it.random.Generator(3))
    x = it.ones((200, 200))
    out = layer(x).numpy()
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((out == 0).mean() - 0.25) < 0.01
    assert not np.array_equal(layer(x).numpy(), out)
    assert np.all(nn.Dropout(1.0)(x).numpy() == 0)
    assert np.all(nn.Dropout(0.0)(x).numpy() == 1)


def test_feed_forward_runs_for_any_rank() -> None:
    block = nn.PositionWiseFeedForward(6, 12, 0.0)
    assert list(block.state_dict()) == [
        "linear_inner.weight", "linear_inner.bias", "linear_outer.weight", "linear_outer.bias",
    ]  # fmt: skip
    x = it.random.normal((2, 3, 4, 6))
    whole = block(x).numpy()
    rows = np.stack([block(row).numpy() for row in it.unstack(it.reshape(x, (24, 6)))])
    np.testing.assert_allclose(whole.reshape(24, 6), rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(3, 2)(it.ones((4, 5))), "Linear(in_features=3"),
        (lambda: nn.Conv2d(3, 2, 3)(it.ones((1, 4, 8, 8))), "Conv2d(3, 2"),
        (lambda: nn.Flatten(3)(it.ones((2, 3))), "start_axis=3 is out of range"),
        (lambda: nn.Flatten(1, 0)(it.ones((2, 3))), "start_axis=1 lies after end_axis=0"),
        (lambda: nn.Unflatten(1, (2, 2))(it.ones((2, 3))), "hold 4 elements, axis 1"),
        (lambda: nn.Unflatten(5, (2, 2))(it.ones((2, 3))), "axis=5 is out of range"),
        (lambda: nn.Embedding(3, 2)(it.asarray([0.5])), "embedding"),
        (lambda: nn.BatchNorm2d(3)(it.ones((2, 3))), "x must have 4 axes"),
        (lambda: nn.BatchNorm1d(3)(it.ones((2, 4))), "channels"),
        (lambda: nn.BatchNorm1d(3)(it.ones((1, 3))), "more than one value"),
        (lambda: nn.BatchNorm1d(3, momentum=2.0), "momentum must be None or in [0, 1]"),
        (lambda: nn.LayerNorm(3)(it.ones((2, 4))), "LayerNorm((3,)"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(it.errors.IngleError) as caught:
        make()
    notes = getattr(caught.value, "__notes__", [])
    assert message in str(caught.value) + " ".join(notes)


def test_averages_by_another_divisor() -> None:
    pool = nn.AvgPool2d(2, divisor_override=3)
    assert pool(it.ones((1, 1, 2, 2))).item() == pytest.approx(4 / 3)
    assert "divisor_override=3" in repr(pool)
    assert "divisor_override" not in repr(nn.AvgPool2d(2))

"""Layers in a compiled step: the same output and gradients, and no recording after the second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.fusion import CompileError, compile
from ingle.nn.utils import rnn

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LSTM": (lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True), (5, 2, 4)),
    "GRU": (lambda: nn.GRU(4, 3, batch_first=True), (2, 5, 4)),
    "RNN": (lambda: nn.RNN(4, 3, nonlinearity="relu"), (5, 2, 4)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), (2, 4)),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), (2, 5, 4)),
    "grouped": (lambda: nn.GroupedQueryAttention(8, 4, 2, window=2, alibi=True), (2, 5, 8)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
                       (2, 3, 4, 4)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(2), (2, 2, 2, 3, 2)),
    "RMSNorm": (lambda: nn.RMSNorm(4), (2, 4)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 3, 2), (1, 2, 4, 4)),
    "padded Conv2d": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"),
                      (1, 2, 4, 4)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
    "Unfold": (lambda: nn.Unfold(2), (1, 2, 4, 4)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(2), (1, 2, 5, 5)),
    "LPPool1d": (lambda: nn.LPPool1d(2, 2), (1, 2, 6)),
    "SwiGLU": (lambda: nn.SwiGLU(4, 3), (2, 4)),
    "spectral": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), (2, 4)),
    "LoRA": (lambda: nn.LoRALinear(nn.Linear(4, 3), 2), (2, 4)),
}  # fmt: skip


QUICK = ("GRU", "GroupNorm", "spectral", "LoRA")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in LAYERS]
)
def test_compiled_equals_plain(name: str) -> None:
    make, shape = LAYERS[name]
    layer = make()
    trained = [p for p in layer.parameters() if p.requires_grad]

    def run(x: it.Tensor) -> Any:
        x = x.require_grad()
        out = layer(x)
        out = out[0] if isinstance(out, tuple) else out
        grads = it.sum(out * it.cos(out)).backward()
        return out, grads[x], [grads[p] for p in trained]

    step = compile(run)
    for seed in range(3):
        x = it.random.normal(shape, generator=it.random.Generator(seed))
        state = layer.state_dict()
        want = run(x)
        layer.load_state_dict(state)
        got = step(x)
        for g, w in zip((*got[:2], *got[2]), (*want[:2], *want[2]), strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=2e-4, atol=2e-5)
    assert step.recordings <= 2


@pytest.mark.parametrize("function", [rnn.pack_padded_sequence, rnn.unpad_sequence])
def test_lengths_without_values_are_refused_with_the_cure(function: Any) -> None:
    x, lengths = it.asarray(np.arange(6.0).reshape(3, 2, 1)), [3, 1]
    compiled = compile(lambda x, lengths: function(x, lengths)[0].sum())
    with pytest.raises(CompileError) as caught:
        compiled(x, it.asarray(lengths))
    (note,) = caught.value.__notes__
    assert note.startswith(f"{function.__name__}: lengths decide the shape")
    for lengths in ([3, 1], [2, 2]):
        given = tuple(it.asarray(lengths).tolist())  # the cure that it names
        assert compiled(x, given).item() == function(x, lengths)[0].sum().item()

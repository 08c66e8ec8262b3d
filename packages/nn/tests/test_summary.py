"""The table of a model's calls: shapes, parameters, operations as PyTorch counts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import OperandError, ShapeError


def image_model(m: Any) -> Any:
    return m.Sequential(
        m.Conv2d(3, 8, 3, padding=1, groups=1), m.BatchNorm2d(8), m.ReLU(), m.MaxPool2d(2),
        m.Conv2d(8, 8, 3, groups=4), m.ConvTranspose2d(8, 6, 3, stride=2), m.Flatten(),
        m.Linear(294, 5),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_operations_are_those_that_pytorch_counts(device: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    with it.device(device):
        for make, shape in ((image_model, (2, 3, 10, 10)), (lambda m: m.Linear(7, 3), (2, 4, 7))):
            ours, theirs = make(nn), make(torch.nn)
            counter = FlopCounterMode(display=False)
            with counter:
                theirs(torch.zeros(shape))
            found = nn.summary(ours, shape)
            assert found.flops == counter.get_total_flops()
            assert found.parameters == sum(p.numel() for p in theirs.parameters())


def test_attention_and_loops_are_counted() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    flops = nn.summary(layer, (3, 5, 8)).flops
    projections, hidden = 2 * 15 * 8 * 32, 2 * 15 * 8 * 16 * 2
    assert flops == projections + hidden + 2 * 2 * 3 * 5 * 5 * 8
    assert nn.summary(nn.GRU(4, 6), (5, 2, 4)).flops == 2 * 5 * 2 * 18 * (4 + 6)


def test_rows_in_the_order_of_calls() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.inner = nn.Linear(4, 4)
            self.head = nn.Linear(4, 2).freeze()

        def forward(self, x: it.Tensor, scale: float = 1.0) -> dict[str, it.Tensor]:
            return {"out": self.head(self.inner(self.inner(x))) * scale}

    found = nn.summary(Twice(), it.ones((3, 4)), scale=2.0)
    assert [row.path for row in found.rows] == ["", "inner", "inner", "head"]
    assert [row.calls for row in found.rows] == [0, 0, 1, 0]
    assert found.rows[0].outputs == [(3, 2)]
    assert (found.parameters, found.trainable) == (30, 20)
    text = str(found)
    assert "(again)" in text
    assert text.endswith("30 parameters, 10 frozen; 240 FLOPs")


def test_nothing_is_changed() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before = {k: v.numpy() for k, v in model.state_dict().items()}
    place = it.random.default_generator().state
    nn.summary(model, (5, 3))
    assert it.random.default_generator().state == place
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key])
    assert "_hooks" not in vars(model) or not vars(model)["_hooks"].before


def test_bad_input() -> None:
    with pytest.raises(OperandError, match=r"write model.summary\(\)"):
        nn.summary(nn.Linear(2, 2))
    with pytest.raises(OperandError, match="expected a Module, got int"):
        nn.summary(3, (2, 2))  # type: ignore[arg-type]
    with pytest.raises(ShapeError) as caught:
        nn.summary(nn.Sequential(nn.Linear(2, 2)), (2, 3))
    assert "in '0' of Sequential" in caught.value.__notes__[-1]

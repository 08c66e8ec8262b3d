"""Norms of groups, instances and features against PyTorch's, in training and in use."""

from __future__ import annotations

from typing import Any

import pytest

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError, IngleError, ShapeError

torch = pytest.importorskip("torch")

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("BatchNorm3d", (2, 1e-3, 0.3), {}, (2, 2, 2, 3, 2)),
    ("BatchNorm2d", (2,), {"bias": False}, (2, 2, 2, 3)),
    ("GroupNorm", (2, 4), {}, (3, 4, 5)),
    ("GroupNorm", (2, 4, 1e-2, False), {}, (3, 4)),
    ("GroupNorm", (2, 4), {"bias": False}, (3, 4, 2, 2)),
    ("InstanceNorm1d", (3,), {}, (2, 3, 5)),
    ("InstanceNorm1d", (3, 1e-2, 0.3, True, True), {}, (3, 5)),
    ("InstanceNorm2d", (3,), {"affine": True, "track_running_stats": True}, (2, 3, 4, 2)),
    ("InstanceNorm3d", (2,), {"track_running_stats": True}, (2, 2, 3, 2, 2)),
    ("RMSNorm", (6,), {}, (3, 6)),
    ("RMSNorm", ((5, 6), 1e-2, False), {}, (3, 5, 6)),
    ("LocalResponseNorm", (3, 0.1, 0.5, 2.0), {}, (2, 5, 3)),
    ("LocalResponseNorm", (2,), {}, (2, 5, 3, 2)),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}{c[1]}")
def test_equals_pytorch(parity: Any, case: Any, train: bool) -> None:
    name, args, options, shape = case
    ours, theirs = parity(name, *args, inputs=[shape], train=train, **options)
    if train and "momentum" in repr(ours):
        # The statistics that the first batch left are what is used now.
        x = it.random.normal(shape, dtype="float64")
        out = ours.eval()(x).numpy()
        want = theirs.eval()(torch.tensor(x.numpy())).detach().numpy()
        assert abs(out - want).max() < 1e-9


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.GroupNorm(3, 4), ArgumentError, "num_channels=4 must be divisible"),
        (lambda: nn.GroupNorm(2, 4)(it.ones((2, 3, 5))), ShapeError, "x must be (batch, 4, ...)"),
        (lambda: nn.InstanceNorm2d(3)(it.ones((2, 4, 5, 5))), ShapeError, "num_features=3"),
        (lambda: nn.InstanceNorm1d(3)(it.ones((2, 3, 1))), ShapeError, "more than one value"),
        (lambda: nn.BatchNorm3d(3)(it.ones((2, 3, 4))), ShapeError, "x must have 5 axes"),
        (lambda: nn.RMSNorm(3)(it.ones((2, 4))), IngleError, "4"),
    ],
)
def test_bad_input(make: Any, kind: type[IngleError], message: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)

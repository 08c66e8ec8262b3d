"""Losses against PyTorch."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError

# PyTorch warns of the mean of kl_div.
pytestmark = pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
RNG = np.random.default_rng(0)
REDUCTIONS = ["mean", "sum", "none"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mse_loss", {}),
        ("l1_loss", {}),
        ("smooth_l1_loss", {}),
        ("smooth_l1_loss", {"beta": 0.4}),
        ("huber_loss", {}),
        ("huber_loss", {"delta": 0.4}),
        ("binary_cross_entropy_with_logits", {}),
        ("kl_div", {"log_target": True}),
    ],
)
@pytest.mark.usefixtures("road")
def test_of_real_numbers(like_torch: Any, name: str, options: Any, reduction: str) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays = [RNG.standard_normal((4, 6)) * 2, RNG.standard_normal((4, 6))]
    options = {**options, "reduction": reduction}
    like_torch(
        lambda x, t: getattr(it, name)(x, t, **options),
        lambda x, t: getattr(functional, name)(x, t, **options),
        arrays,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["binary_cross_entropy", "kl_div"])
@pytest.mark.usefixtures("road")
def test_of_probabilities(like_torch: Any, name: str, reduction: str) -> None:
    functional = pytest.importorskip("torch").nn.functional
    arrays = [RNG.uniform(0.05, 0.95, (4, 6)) for _ in range(2)]
    like_torch(
        lambda x, t: getattr(it, name)(x, t, reduction=reduction),
        lambda x, t: getattr(functional, name)(x, t, reduction=reduction),
        arrays,
        rtol=1e-7,
    )


@pytest.mark.parametrize("target", [0.0, 1.0])
@pytest.mark.parametrize("outside", [-0.5, -1e-30, 1.0001, 3.0])
@pytest.mark.usefixtures("road")
def test_what_is_no_probability_has_no_finite_loss_and_no_finite_slope(
    outside: float, target: float
) -> None:
    x = it.asarray([0.0, outside, 1.0]).require_grad()
    loss = it.binary_cross_entropy(x, it.full(3, target), reduction="none")
    found = [loss.numpy(), loss.sum().backward()[x].numpy()]
    assert [np.isnan(part).tolist() for part in found] == [[False, True, False]] * 2


@pytest.mark.usefixtures("road")
def test_weights_of_binary_cross_entropy(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    weight, positive = RNG.uniform(0.5, 2, (4, 6)), RNG.uniform(0.5, 2, 6)
    x, t = RNG.standard_normal((4, 6)), RNG.uniform(0, 1, (4, 6))
    like_torch(
        lambda a: it.binary_cross_entropy_with_logits(
            a, it.asarray(t), it.asarray(weight), pos_weight=it.asarray(positive)
        ),
        lambda a: functional.binary_cross_entropy_with_logits(
            a, torch.tensor(t), torch.tensor(weight), pos_weight=torch.tensor(positive)
        ),
        [x],
    )
    like_torch(
        lambda a: it.binary_cross_entropy(a, it.asarray(t), it.asarray(weight)),
        lambda a: functional.binary_cross_entropy(a, torch.tensor(t), torch.tensor(weight)),
        [RNG.uniform(0.05, 0.95, (4, 6))],
        rtol=1e-7,
    )


def test_certainty_has_a_finite_loss_and_gradient() -> None:
    torch = pytest.importorskip("torch")
    values, wanted = [0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]
    x = it.asarray(values).require_grad()
    loss = it.binary_cross_entropy(x, it.asarray(wanted), reduction="none")
    assert loss.tolist() == [0.0, 100.0, 100.0, 0.0]
    t = torch.tensor(values, requires_grad=True)
    torch.nn.functional.binary_cross_entropy(t, torch.tensor(wanted)).backward()
    got = it.binary_cross_entropy(x, it.asarray(wanted)).backward()[x]
    np.testing.assert_allclose(got.numpy(), t.grad.numpy(), rtol=1e-6)


def test_zero_probabilities_in_a_divergence() -> None:
    target = it.asarray([[0.0, 1.0]]).require_grad()
    loss = it.kl_div(it.asarray([[-1.0, -2.0]]), target, reduction="batchmean")
    assert loss.item() == 2.0
    assert np.isfinite(loss.backward()[target].numpy()).all()


SHAPES = [(5, 4), (2, 4, 3), (3, 5, 2, 3), (6,)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("shape", "reduction", "smoothing", "weighted", "ignored"),
    list(itertools.product(SHAPES, REDUCTIONS, [0.0, 0.2], [False, True], [-100, 1])),
)
@pytest.mark.usefixtures("road")
def test_cross_entropy(
    like_torch: Any, shape: Any, reduction: str, smoothing: float, weighted: bool, ignored: int
) -> None:
    torch = pytest.importorskip("torch")
    axis = 0 if len(shape) == 1 else 1
    rng = np.random.default_rng(sum(shape))
    target = rng.integers(0, shape[axis], shape[:axis] + shape[axis + 1 :])
    if target.ndim == 0:
        target = np.asarray(2)
    weight = rng.uniform(0.5, 2, shape[axis])
    options = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": ignored}
    like_torch(
        lambda x: it.cross_entropy(
            x, it.asarray(target), it.asarray(weight) if weighted else None, **options
        ),
        lambda x: torch.nn.functional.cross_entropy(
            x, torch.tensor(target), torch.tensor(weight) if weighted else None, **options
        ),
        [rng.standard_normal(shape) * 3],
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("road")
def test_cross_entropy_with_distributions(
    like_torch: Any, reduction: str, smoothing: float, weighted: bool
) -> None:
    torch = pytest.importorskip("torch")
    weight = RNG.uniform(0.5, 2, 4)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    like_torch(
        lambda x, t: it.cross_entropy(x, t, it.asarray(weight) if weighted else None, **options),
        lambda x, t: torch.nn.functional.cross_entropy(
            x, t, torch.tensor(weight) if weighted else None, **options
        ),
        [RNG.standard_normal((3, 4, 2)), RNG.uniform(0, 1, (3, 4, 2))],
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("road")
def test_nll_loss(like_torch: Any, reduction: str, weighted: bool) -> None:
    torch = pytest.importorskip("torch")
    weight, target = RNG.uniform(0.5, 2, 4), RNG.integers(0, 4, (5, 3))
    options = {"reduction": reduction, "ignore_index": 1}
    like_torch(
        lambda x: it.nll_loss(
            x, it.asarray(target), it.asarray(weight) if weighted else None, **options
        ),
        lambda x: torch.nn.functional.nll_loss(
            x, torch.tensor(target), torch.tensor(weight) if weighted else None, **options
        ),
        [RNG.standard_normal((5, 4, 3))],
    )


@pytest.mark.usefixtures("road")
def test_extreme_logits() -> None:
    x = it.asarray([[1e4, -1e4], [-math.inf, 0.0]]).require_grad()
    loss = it.cross_entropy(x, it.asarray([1, 1]), reduction="none")
    assert loss.tolist() == [2e4, 0.0]
    assert loss.sum().backward()[x].tolist() == [[1.0, -1.0], [0.0, 0.0]]


@pytest.mark.usefixtures("road")
def test_ignored_targets_may_be_impossible() -> None:
    x = it.asarray([[-math.inf, 0.0], [0.0, 0.0]]).require_grad()
    loss = it.cross_entropy(x, it.asarray([-100, 0]))
    assert loss.item() == pytest.approx(math.log(2))
    assert np.isfinite(loss.backward()[x].numpy()).all()


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 0.5]])
@pytest.mark.parametrize(
    ("name", "options"),
    [("nll_loss", {}), ("cross_entropy", {}), ("cross_entropy", {"label_smoothing": 0.25})],
)
def test_a_batch_of_ignored_targets_leaves_weights_as_they_are(
    name: str, options: dict[str, Any], weight: list[float] | None
) -> None:
    """Their mean is 0 / 0, which is no reason for gradients that are no numbers."""
    x = it.asarray([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]).require_grad()
    counts = None if weight is None else it.asarray(weight)
    loss = getattr(it, name)(x, it.asarray([-100, -100]), counts, **options)
    assert math.isnan(loss.item())
    assert loss.backward()[x].tolist() == [[0.0] * 3] * 2


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_class_numbers_of_any_integer_dtype(dtype: str) -> None:
    x = it.zeros((2, 200)).require_grad()
    loss = it.cross_entropy(x, it.asarray([100, 7], dtype=dtype))
    assert loss.item() == pytest.approx(math.log(200))
    assert loss.backward()[x].numpy()[0, 100] < 0


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("wrong", [10, -1])
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_a_label_out_of_range(name: str, wrong: int) -> None:
    x = it.zeros((2, 10)).require_grad()
    with pytest.raises(OutOfRangeError):
        getattr(it, name)(x, it.asarray([1, wrong])).item()


@pytest.mark.parametrize("wrong", [12, -1])
def test_a_label_out_of_range_is_named_with_the_number_of_classes(wrong: int) -> None:
    for x in (it.zeros((2, 10)), it.zeros((2, 10)).require_grad()):
        with pytest.raises(
            OutOfRangeError,
            match=rf"^cross_entropy: target holds {wrong}, but there are 10 classes",
        ):
            it.cross_entropy(x, it.asarray([1, wrong])).item()


def test_bad_input() -> None:
    x, target = it.zeros((2, 10)), it.asarray([1, 2])
    with pytest.raises(ShapeError, match="broadcasting would compare each with each"):
        it.mse_loss(it.zeros((3, 1)), it.zeros(3))
    with pytest.raises(ArgumentError, match="reduction must be one of 'mean', 'sum', 'none'"):
        it.l1_loss(x, x, reduction="avg")
    with pytest.raises(ShapeError, match=r"expected target \(2,\)"):
        it.cross_entropy(x, it.asarray([[1], [2]]))
    with pytest.raises(DTypeError, match="class numbers"):
        it.cross_entropy(x, it.asarray([True, False]))
    with pytest.raises(DTypeError, match="class numbers"):
        it.nll_loss(x, it.zeros(2))
    with pytest.raises(ShapeError, match="each of the 10 classes"):
        it.cross_entropy(x, target, it.ones(9))
    with pytest.raises(ArgumentError, match="label_smoothing"):
        it.cross_entropy(x, target, label_smoothing=1.5)
    with pytest.raises(ShapeError, match="scores"):
        it.cross_entropy(x, it.zeros((2, 9)))
    with pytest.raises(ArgumentError, match="delta must be positive"):
        it.huber_loss(x, x, delta=0.0)
    with pytest.raises(ArgumentError, match="beta"):
        it.smooth_l1_loss(x, x, beta=-1.0)

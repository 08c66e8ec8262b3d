"""Losses that are made of operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import ops
from ..sample import Checked, Draw, Sample

REDUCTIONS = ("mean", "sum", "none")


def _loss(
    public: Callable[..., Any],
    samples: Callable[[Draw, dict[str, str]], Iterator[Sample]],
    each: Callable[..., Any],
) -> None:
    """Checks a loss in all its reductions; `each` is the loss of every element."""

    def drawn(draw: Draw) -> Iterator[Sample]:
        if draw.dtype.is_floating:
            for reduction in REDUCTIONS:
                yield from samples(draw, {"reduction": reduction})

    def reference(*operands: Any, reduction: str = "mean", **options: Any) -> Any:
        loss = each(*operands, **options)
        if reduction == "none":
            return loss
        return np.sum(loss) if reduction == "sum" else np.mean(loss)

    Checked(public, samples=drawn, reference=reference)


def _signs(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """1 or -1."""
    wide = draw.array(shape, low=-1.0, high=1.0, dtype="float64")
    return np.where(wide < 0, -1, 1).astype(draw.dtype.dtype)


def _apart(draw: Draw, shape: tuple[int, ...], level: float = 0.0) -> np.ndarray:
    """Numbers at least 1/8 away from a level, where a loss has a kink."""
    values = draw.array(shape, low=0.125, high=2.0, dtype="float64")
    return np.asarray(level + values * _signs(draw, shape), draw.dtype.dtype)


def _hinges(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    for shape in map(draw.shape, ((3, 5), (17,))):
        x, signs = _apart(draw, shape, 1.0), _signs(draw, shape)
        yield Sample((x, signs), options, gradient=(0,), condition=8)


_loss(
    ops.hinge_embedding_loss,
    _hinges,
    lambda x, y: np.where(y == 1, x, np.maximum(0, 1 - x)),
)


def _rankings(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    for a in map(draw.shape, ((3, 5), (17,))):
        x1, signs = draw.array(a), _signs(draw, a)
        # The loss bends where the two differ by the margin.
        x2 = (x1 - _apart(draw, a, 0.0)).astype(x1.dtype)
        yield Sample((x1, x2, signs), options, gradient=(0, 1), condition=16)
    yield Sample((draw.array((0,)), draw.array(()), draw.array((0,))), {"reduction": "sum"})


_loss(
    ops.margin_ranking_loss,
    _rankings,
    lambda a, b, y: np.maximum(0, -y * (a - b)),
)


def _angles(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    n, m = draw.size(5), draw.size(3, least=1)
    x1, x2 = draw.array((n, m), low=0.25), draw.array((n, m), low=0.25)
    more = {**options, "margin": -0.5}
    yield Sample((x1, x2, _signs(draw, (n,))), more, gradient=(0, 1), condition=16, magnitude=1.0)
    one = x1[0], x2[0], _signs(draw, ())
    yield Sample(one, more, gradient=(0, 1), condition=16, magnitude=1.0)


def _embedding(x1: Any, x2: Any, target: Any, margin: float) -> Any:
    squares = [np.sum(x * x, axis=-1) + 1e-12 for x in (x1, x2)]  # as in PyTorch
    cosine = np.sum(x1 * x2, axis=-1) / np.sqrt(squares[0] * squares[1])
    return np.where(target == 1, 1 - cosine, np.maximum(0, cosine - margin))


_loss(ops.cosine_embedding_loss, _angles, _embedding)


def _triplets(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    for shape in map(draw.shape, ((5, 3), (2, 3, 8))):
        vectors = [draw.array(shape) for _ in range(3)]
        yield Sample(tuple(vectors), {**options, "margin": 9.0}, condition=16)
        yield Sample(tuple(vectors), {**options, "margin": 9.0, "swap": True}, condition=16)


def _triplet(a: Any, b: Any, c: Any, margin: float, swap: bool = False) -> Any:
    def distance(x: Any, y: Any) -> Any:
        return np.linalg.norm(x - y + 1e-6, axis=-1)

    far = np.minimum(distance(a, c), distance(b, c)) if swap else distance(a, c)
    return np.maximum(0, distance(a, b) - far + margin)


_loss(ops.triplet_margin_loss, _triplets, _triplet)


def _soft(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    for shape in map(draw.shape, ((3, 5), (17,), ())):
        x, signs = draw.array(shape, low=-9.0, high=9.0), _signs(draw, shape)
        yield Sample((x, signs), options, condition=8)


_loss(ops.soft_margin_loss, _soft, lambda x, y: np.logaddexp(0, -y * x))


def _classes(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    n, m = draw.size(5), draw.size(3, least=1)
    scores, target = draw.apart((n, m), step=0.3), draw.integers((n,), m)
    yield Sample((scores, target), options, condition=8)
    more = {**options, "p": 2, "margin": 0.5}
    weight = draw.array((m,), low=0.5)
    yield Sample((scores, target, weight), more, gradient=(0,), condition=16)
    yield Sample((draw.apart((m,)), draw.integers((), m)), options, condition=8)


def _multi(x: Any, target: Any, weight: Any = None, p: int = 1, margin: float = 1.0) -> Any:
    right = np.take_along_axis(x, target[..., None], -1)
    lack = np.maximum(0, margin - right + x) ** p
    lack = lack * (1 if weight is None else weight[target][..., None])
    np.put_along_axis(lack, target[..., None], 0, -1)
    return lack.sum(-1) / x.shape[-1]


_loss(ops.multi_margin_loss, _classes, _multi)


def _labels(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    n, m = draw.size(5), draw.size(3, least=1)
    order = np.argsort(draw.integers((n, m), 1 << 30), axis=-1)
    ends = draw.integers((n, 1), m + 1)
    target = np.where(np.arange(m) < ends, order, -1)
    yield Sample((draw.apart((n, m), step=0.3), target), options, condition=16)
    last = np.asarray([m - 1, *[-1] * (m - 1)])
    yield Sample((draw.apart((m,)), last), options, condition=16)


def _multilabel(x: Any, target: Any) -> Any:
    out = np.zeros(x.shape[:-1])
    for at in np.ndindex(*out.shape):
        right = list(target[at])
        right = right[: right.index(-1)] if -1 in right else right
        wrong = [i for i in range(x.shape[-1]) if i not in right]
        lacks = [max(0.0, 1 - x[at][r] + x[at][w]) for r in right for w in wrong]
        out[at] = sum(lacks) / x.shape[-1]
    return out


_loss(ops.multilabel_margin_loss, _labels, _multilabel)


def _probabilities(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    for shape in map(draw.shape, ((3, 5), (2, 3, 8), (2,))):
        x, target = draw.array(shape, low=-9.0, high=9.0), draw.array(shape, low=0.0, high=1.0)
        yield Sample((x, target), options, condition=16)
        weight = draw.array(shape[-1:], low=0.5)
        yield Sample((x, target, weight), options, gradient=(0, 1), condition=16)


def _soft_labels(x: Any, target: Any, weight: Any = 1.0) -> Any:
    each = target * np.logaddexp(0, -x) + (1 - target) * np.logaddexp(0, x)
    return np.mean(each * weight, axis=-1)


_loss(ops.multilabel_soft_margin_loss, _probabilities, _soft_labels)


def _counts(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    for shape in map(draw.shape, ((3, 5), (17,))):
        x = draw.array(shape)
        target = draw.integers(shape, 9).astype(draw.dtype.dtype)
        yield Sample((x, target), options, gradient=(0,), condition=16)
        more = {**options, "log_input": False, "full": True}
        rates = draw.array(shape, low=0.5, high=4.0)
        yield Sample((rates, target), more, gradient=(0,), condition=32, magnitude=8.0)


def _poisson(x: Any, target: Any, log_input: bool = True, full: bool = False) -> Any:
    loss = np.exp(x) - target * x if log_input else x - target * np.log(x + 1e-8)
    if full:
        n = np.maximum(target, 2)
        stirling = n * np.log(n) - n + 0.5 * np.log(2 * np.pi * n)
        loss = loss + np.where(target > 1, stirling, 0)
    return loss


_loss(ops.poisson_nll_loss, _counts, _poisson)


def _normals(draw: Draw, options: dict[str, Any]) -> Iterator[Sample]:
    n, m = draw.shape((3, 5))
    means, wanted = draw.array((n, m)), draw.array((n, m))
    for var in ((n, m), (n, 1), (n,)):
        spread = draw.array(var, low=0.5, high=2.0)
        yield Sample((means, wanted, spread), {**options, "full": var == (n,)}, condition=16)


def _gaussian(x: Any, target: Any, var: Any, full: bool) -> Any:
    var = var[..., None] if var.ndim < x.ndim else var
    loss = 0.5 * (np.log(var) + (x - target) ** 2 / var)
    return loss + 0.5 * np.log(2 * np.pi) if full else loss


_loss(ops.gaussian_nll_loss, _normals, _gaussian)

"""Functions of single elements, of vectors and of their statistics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import ops
from ..operation import Traits
from ..sample import Checked, Draw, Sample

_ELEMENTWISE = Traits("elementwise")
_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (3,), (2, 17))
_PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3,), ()), ((2, 17), (17,)), ((5, 1, 3), (8, 1)), ((0, 3), (1, 3)), ((), ()),
)  # fmt: skip


def _numbers(draw: Draw) -> Iterator[Sample]:
    for shape in _SHAPES:
        yield Sample((draw.array(shape),))


Checked(ops.deg2rad, samples=_numbers, reference=lambda x: x * (np.pi / 180), traits=_ELEMENTWISE)
Checked(ops.rad2deg, samples=_numbers, reference=lambda x: x * (180 / np.pi), traits=_ELEMENTWISE)


def _angles(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_inexact:
        for shape in _SHAPES:
            # Away from 0, where the angle jumps.
            yield Sample((draw.array(shape, low=0.5),))
            yield Sample((draw.array(shape, high=-0.5),), gradient=draw.dtype.is_complex)


Checked(ops.angle, samples=_angles, reference=np.angle, traits=_ELEMENTWISE)


def _positives(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind != "bool":
        yield from _numbers(draw)


Checked(ops.positive, samples=_positives, reference=np.positive, traits=_ELEMENTWISE)


def _alike(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind == "bool":
        return
    for a, b in _PAIRS:
        x1, x2 = draw.array(a), draw.array(b)
        yield Sample((x1, np.where(draw.array(b, dtype="bool"), x2, 0).astype(x2.dtype)))
        yield Sample((x1, x1))
    if draw.dtype.is_floating:
        odd = np.asarray([np.nan, np.inf, -np.inf, 1.0, 2.0], draw.dtype.dtype)
        yield Sample((odd, odd), {"equal_nan": True})
        yield Sample((odd, odd[::-1].copy()), {"rtol": 1.0, "atol": 0.25})
        yield Sample((odd, 1.0))


Checked(
    ops.isclose, samples=_alike, reference=np.isclose, traits=Traits("opaque"), differentiable=False
)


def _scores(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        yield Sample((draw.array((3, 5)),))
        yield Sample((draw.array((2, 17, 3), low=-30, high=30),), {"axis": 1})
        yield Sample((draw.array((0, 3)),))


def _softmin(x: Any, axis: int = -1) -> Any:
    from scipy.special import softmax

    return softmax(-x, axis=axis) if x.size else x


Checked(ops.softmin, samples=_scores, reference=_softmin)


def _reduced(draw: Draw) -> Iterator[Sample]:
    few = draw.array((3, 5)) * draw.array((3, 5), dtype="bool")
    yield Sample((few.astype(draw.dtype.dtype),))
    yield Sample((draw.array((2, 3, 5)),), {"axis": (0, -1)})
    yield Sample((draw.array((2, 3)),), {"axis": 1, "keepdims": True})
    yield Sample((draw.array((0, 3)),), {"axis": 0})
    yield Sample((draw.array(()),))


Checked(
    ops.count_nonzero,
    samples=_reduced,
    reference=np.count_nonzero,
    traits=Traits("reduction"),
    differentiable=False,
)


def _vectors(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        yield Sample((draw.array((3, 5)),), condition=4)
        yield Sample((draw.array((5, 2, 3)),), {"p": 3.0, "axis": 0}, gradient=False, condition=8)
        yield Sample((draw.apart((3, 5)),), {"p": 1.0, "axis": -1}, condition=4)
        yield Sample((draw.array((0, 3)),))


def _normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Any:
    norm = np.linalg.vector_norm(x, ord=p, axis=axis, keepdims=True)
    return x / np.maximum(norm, eps)


Checked(ops.normalize, samples=_vectors, reference=_normalize)


def _pairs(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        yield Sample((draw.array((3, 5)), draw.array((3, 5))), magnitude=1.0)
        yield Sample((draw.array((2, 3, 5)), draw.array((5,))), {"eps": 1e-3}, magnitude=1.0)
        yield Sample((draw.array((0, 3)), draw.array((3,))))


def _cosine(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    a, b = np.broadcast_arrays(x1, x2)
    norms = [np.maximum(np.sqrt(np.sum(x * x, axis=axis)), eps) for x in (a, b)]
    return np.sum(a * b, axis=axis) / (norms[0] * norms[1])


def _distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> Any:
    return np.linalg.vector_norm(x1 - x2 + eps, ord=p, axis=-1, keepdims=keepdims)


Checked(ops.cosine_similarity, samples=_pairs, reference=_cosine)


def _distances(draw: Draw) -> Iterator[Sample]:
    for sample in _pairs(draw):
        yield sample
        yield Sample(sample.args, {"p": 1.0, "keepdims": True}, magnitude=1.0)


Checked(ops.pairwise_distance, samples=_distances, reference=_distance)


def _rows(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    yield Sample((draw.array((5, 3)), draw.array((2, 3))), condition=4)
    yield Sample((draw.array((2, 3, 5)), draw.array((2, 5))), {"p": 1.0}, condition=4)
    yield Sample((draw.array((0, 3)), draw.array((2, 3))), condition=4)
    many = draw.array((33, 3)), draw.array((2, 3), low=5.0, high=9.0)
    # Their squares are subtracted from one another.
    yield Sample(many, condition=32, magnitude=64.0)


def _cdist(x1: Any, x2: Any, p: float = 2.0) -> Any:
    return np.linalg.vector_norm(x1[..., :, None, :] - x2[..., None, :, :], ord=p, axis=-1)


Checked(ops.cdist, samples=_rows, reference=_cdist)


def _observations(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    n, m = draw.size(3, least=2), draw.size(8, least=4)
    yield Sample((draw.array((n, m)),), condition=16)
    yield Sample((draw.array((m,)),), {"correction": 0}, condition=16)
    counts, shares = draw.integers((m,), 3) + 1, draw.array((m,), low=0.5, high=1.5).real
    if draw.dtype.is_floating:
        options = {"fweights": counts, "aweights": shares.astype(draw.dtype.dtype)}
        yield Sample((draw.array((n, m)),), options, gradient=(0,), condition=64)
    yield Sample((draw.array((n, m)),), {"fweights": counts}, gradient=(0,), condition=32)


def _cov(x: Any, correction: int = 1, **weights: Any) -> Any:
    return np.cov(x, ddof=correction, **weights)


def _related(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_inexact:
        n, m = draw.size(3, least=2), draw.size(8, least=4)
        yield Sample((draw.array((n, m)),), condition=32, magnitude=1.0)


Checked(ops.cov, samples=_observations, reference=_cov)
Checked(ops.corrcoef, samples=_related, reference=np.corrcoef)


def _lines(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((5,)),))
    yield Sample((draw.array((3, 5)),), {"axis": 0, "n": 2}, magnitude=4.0)
    yield Sample((draw.array((3, 5)),), {"n": 0})
    yield Sample((draw.array((0, 3)),))
    ends = {"prepend": draw.array((3, 1)), "append": draw.array((3, 2))}
    yield Sample((draw.array((3, 5)),), ends)


def _diff(x: Any, axis: int = -1, **options: Any) -> Any:
    return np.diff(x, axis=axis, **options)


Checked(ops.diff, samples=_lines, reference=_diff)


def _ordered(draw: Draw) -> Iterator[Sample]:
    """Numbers apart from one another."""
    if draw.dtype.is_complex or draw.dtype.kind == "bool":
        return
    make = draw.apart if draw.dtype.is_floating else draw.array
    for shape, options in (
        ((5,), {}), ((3, 8), {"axis": 0}), ((2, 3, 5), {"axis": 1, "keepdims": True}),
    ):  # fmt: skip
        gradient = draw.dtype.is_floating
        yield Sample((make(shape),), options, gradient=gradient)


def _median(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    return np.quantile(x, 0.5, axis=axis, keepdims=keepdims, method="lower")


def _mode(x: Any, axis: int = -1, keepdims: bool = False) -> Any:
    lines = np.moveaxis(x, axis, -1)
    value, index = np.zeros(lines.shape[:-1], x.dtype), np.zeros(lines.shape[:-1], np.int64)
    for at in np.ndindex(*lines.shape[:-1]):
        found, counts = np.unique(lines[at], return_counts=True)
        value[at] = found[np.argmax(counts)]
        index[at] = np.max(np.nonzero(lines[at] == value[at])[0])
    both = value, index
    return tuple(np.expand_dims(b, axis) for b in both) if keepdims else both


Checked(ops.median, samples=_ordered, reference=_median)


def _frequent(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_complex and draw.dtype.kind != "bool":
        for shape, options in (((8,), {}), ((3, 8), {"axis": 0}), ((2, 5), {"keepdims": True})):
            few = draw.integers(shape, 3).astype(draw.dtype.dtype)
            yield Sample((few,), options, gradient=False)


Checked(ops.mode, samples=_frequent, reference=_mode)


def _quantiles(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        half = draw.dtype.itemsize == 2
        for q, options in (
            (0.5, {}), ([0.0, 0.25, 1.0], {"axis": 0}), (0.75, {"axis": 1, "keepdims": True}),
            (0.5, {"interpolation": "midpoint"}), (0.25, {"interpolation": "lower"}),
        ):  # fmt: skip
            yield Sample((draw.apart((3, 5)), q), options, condition=8, gradient=not half)


def _quantile(x: Any, q: Any, interpolation: Any = "linear", **options: Any) -> Any:
    return np.quantile(x, q, method=interpolation, **options)


Checked(ops.quantile, samples=_quantiles, reference=_quantile)


def _whole(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_integer:
        few = draw.integers((17,), 5).astype(draw.dtype.dtype)
        yield Sample((few,))
        yield Sample((few,), {"minlength": 8})
        yield Sample((few, draw.array((17,), dtype="float32")), condition=4)
        yield Sample((few[:0],), {"minlength": 3})


Checked(ops.bincount, samples=_whole, reference=np.bincount, differentiable=False)


def _counted(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating and draw.dtype.itemsize > 2:
        x = draw.array((3, 17))
        yield Sample((x,), gradient=False, magnitude=4.0)
        yield Sample((x, 4), {"range": (-1.0, 1.5)}, gradient=False, magnitude=4.0)
        weight = draw.array((3, 17), low=0.5)
        options = {"weight": weight, "density": True, "range": (-3.0, 3.0)}
        yield Sample((x, 5), options, gradient=False, condition=16, magnitude=4.0)
        edges = np.asarray([-1.5, 0.0, 0.25, 2.0], draw.dtype.dtype)
        yield Sample((x, edges), gradient=False, magnitude=4.0)


def _histogram(x: Any, bins: Any = 10, weight: Any = None, **options: Any) -> Any:
    return np.histogram(x, bins, weights=weight, **options)


Checked(ops.histogram, samples=_counted, reference=_histogram, differentiable=False)


def _repeated(draw: Draw) -> Iterator[Sample]:
    for shape in ((17,), (3, 5), (), (0,)):
        few = draw.integers(shape, 2 if draw.dtype.kind == "bool" else 5)
        yield Sample((few.astype(draw.dtype.dtype),), gradient=False)


_OPAQUE = Traits("opaque", dynamic_shape=True)
_unique = partial(Checked, samples=_repeated, traits=_OPAQUE, differentiable=False)
_unique(ops.unique_values, reference=np.unique)
_unique(ops.unique_counts, reference=partial(np.unique, return_counts=True))
_unique(ops.unique_inverse, reference=partial(np.unique, return_inverse=True))

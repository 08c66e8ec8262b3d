"""Convolution, pooling and their kin by the number of image axes, and bags of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import ops
from ..operation import OPERATIONS, Operation
from ..ops.convolution import _reference as convolutions
from ..ops.pooling import _reference as poolings
from ..sample import Checked, Draw, Sample


def _of_rank(of: Operation, rank: int, draw: Draw) -> Iterator[Sample]:
    """The samples of an operation for any rank that have one, each without its batch as well."""
    assert of.samples is not None
    for sample in of.samples(draw):
        if sample.args[0].ndim == rank + 2:
            yield sample


def _alone(samples: Callable[[Draw], Iterator[Sample]], draw: Draw) -> Iterator[Sample]:
    """Samples, and the first of them that has a batch without it."""
    told = False
    for sample in samples(draw):
        yield sample
        if not told and len(sample.args[0]):
            told = True
            images, *rest = sample.args
            yield Sample(
                (images[0], *rest), sample.kwargs, gradient=sample.gradient,
                condition=sample.condition,
            )  # fmt: skip


def _batched(reference: Callable[..., Any], rank: int, x: Any, *rest: Any, **options: Any) -> Any:
    """A reference for images with a batch, applied to those without as well."""
    if x.ndim == rank + 2:
        return reference(x, *rest, **options)
    found = reference(x[None], *rest, **options)
    return tuple(f[0] for f in found) if isinstance(found, tuple) else found[0]


def _by_rank(of: str, reference: Callable[..., Any], *names: str) -> None:
    """Checks functions for 1, 2, … image axes with the samples of the operation for all."""
    for rank, name in enumerate(names, 1):
        samples = partial(_of_rank, OPERATIONS[of], rank)
        Checked(
            getattr(ops, name),
            samples=partial(_alone, samples),
            reference=partial(_batched, reference, rank),
            differentiable=True,
        )


_by_rank("conv", convolutions.conv, "conv1d", "conv2d", "conv3d")
_by_rank("max_pool", poolings.max_pool, "max_pool1d", "max_pool2d", "max_pool3d")
_by_rank("avg_pool", poolings.avg_pool, "avg_pool1d", "avg_pool2d", "avg_pool3d")


def _adaptive(of: Callable[..., Any], x: Any, output_size: Any) -> Any:
    """Windows by definition: from floor(o n / m) up to ceil((o + 1) n / m)."""
    size = x.shape[2:]
    each = output_size if isinstance(output_size, tuple) else (output_size,) * len(size)
    wanted = [n if m is None else m for m, n in zip(each, size, strict=True)]
    out = np.zeros((*x.shape[:2], *wanted), x.dtype)
    for at in np.ndindex(*wanted):
        window = tuple(
            slice(o * n // m, -(-(o + 1) * n // m))
            for o, n, m in zip(at, size, wanted, strict=True)
        )
        out[(..., *at)] = of(x[(..., *window)], axis=tuple(range(2, x.ndim)))
    return out


_by_rank(
    "adaptive_avg_pool", partial(_adaptive, np.mean),
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
)  # fmt: skip
_by_rank(
    "adaptive_max_pool", partial(_adaptive, np.max),
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
)  # fmt: skip


def _powers(rank: int, draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    for shape, kernel, options in (
        ((2, 3, *(8, 5, 3)[:rank]), 2, {}),
        ((1, 2, *(5, 5, 3)[:rank]), 3, {"stride": 1, "ceil_mode": True}),
    ):
        x = draw.array(shape, low=0.25)
        yield Sample((x, 2.0, kernel), options, condition=16)
        yield Sample((x[:1], 3, kernel), options, condition=16)


def _power(x: Any, p: float, kernel_size: Any, **options: Any) -> Any:
    rank = x.ndim - 2
    mean = poolings.avg_pool(x**p, kernel_size, **options)
    return (mean * kernel_size**rank) ** (1 / p)


for rank in (1, 2, 3):
    Checked(
        getattr(ops, f"lp_pool{rank}d"),
        samples=partial(_alone, partial(_powers, rank)),
        reference=partial(_batched, _power, rank),
    )


def _fractions(rank: int, draw: Draw) -> Iterator[Sample]:
    for sample in _of_rank(OPERATIONS["fractional_max_pool"], rank, draw):
        x, kernel, size, places = sample.args
        yield Sample((x, kernel), {"output_size": size, "samples": places}, gradient=(0,))


def _fractional(x: Any, kernel_size: Any, output_size: Any, samples: Any) -> Any:
    from ..ops.pooling.fractional_pooling import FRACTIONAL_MAX_POOL

    reference: Any = FRACTIONAL_MAX_POOL.reference
    return reference(x, kernel_size, output_size, samples)[0]


for rank in (2, 3):
    Checked(
        getattr(ops, f"fractional_max_pool{rank}d"),
        samples=partial(_fractions, rank),
        reference=_fractional,
    )


def _unpooled(rank: int, draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind == "bool" or (draw.dtype.is_integer and draw.dtype.itemsize == 1):
        return
    n, c, *size = *draw.shape((2, 3)), *draw.shape((3, 2, 2)[:rank], least=1)
    planes, whole = (n, c, *size), [2 * m for m in size]
    corner = sum(np.ix_(*[
        2 * np.arange(m) * int(np.prod(whole[i + 1 :])) for i, m in enumerate(size)
    ]))  # fmt: skip
    places = corner + draw.integers(planes, 2)
    yield Sample((draw.array(planes), places, 2))
    yield Sample((draw.array(planes)[0, :], places[0, :], 2), {"output_size": tuple(whole)})


def _unpool(x: Any, indices: Any, kernel: int, output_size: Any = None) -> Any:
    size = output_size or [kernel * m for m in x.shape[2:]]
    out = np.zeros((*x.shape[:2], int(np.prod(size))), x.dtype)
    flat = indices.reshape(*x.shape[:2], -1)
    np.put_along_axis(out, flat, x.reshape(flat.shape), -1)
    return out.reshape(*x.shape[:2], *size)


def _unpool_any(rank: int, x: Any, indices: Any, kernel: int, output_size: Any = None) -> Any:
    if x.ndim == rank + 2:
        return _unpool(x, indices, kernel, output_size)
    return _unpool(x[None], indices[None], kernel, output_size)[0]


for rank in (1, 2, 3):
    Checked(
        getattr(ops, f"max_unpool{rank}d"),
        samples=partial(_unpooled, rank),
        reference=partial(_unpool_any, rank),
    )


def _spread(rank: int, draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    size, kernel = (3, 2, 3)[:rank], (3, 2, 1)[:rank]
    plain = draw.array((2, 3, *size)), draw.array((3, 5, *kernel))
    yield Sample(plain, condition=16)
    yield Sample((*plain, draw.array((5,))), {"stride": 2, "output_padding": 1}, condition=16)
    grouped = draw.array((1, 4, *size)), draw.array((4, 2, *kernel))
    options = {"groups": 2, "padding": 1, "dilation": 2, "stride": 3}
    yield Sample(grouped, options, condition=16)


def _transposed(
    x: Any, weight: Any, bias: Any = None, *, stride: int = 1, padding: int = 0,
    output_padding: int = 0, groups: int = 1, dilation: int = 1,
) -> Any:  # fmt: skip
    """Each element times the kernel, added where it falls."""
    rank, kernel = x.ndim - 2, weight.shape[2:]
    c, f = x.shape[1] // groups, weight.shape[1]
    size = [
        (n - 1) * stride + dilation * (k - 1) + 1 + output_padding
        for n, k in zip(x.shape[2:], kernel, strict=True)
    ]
    out = np.zeros((x.shape[0], f * groups, *size), np.result_type(x, weight))
    for at in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*kernel):
            place = tuple(a * stride + t * dilation for a, t in zip(at, tap, strict=True))
            for g in range(groups):
                given, taken = slice(g * c, (g + 1) * c), slice(g * f, (g + 1) * f)
                out[(slice(None), taken, *place)] += (
                    x[(slice(None), given, *at)] @ weight[(given, slice(None), *tap)]
                )
    cut = tuple(slice(padding, n - padding) for n in size)
    out = out[(slice(None), slice(None), *cut)]
    return out if bias is None else out + bias.reshape(-1, *(1,) * rank)


for rank in (1, 2, 3):
    Checked(
        getattr(ops, f"conv_transpose{rank}d"),
        samples=partial(_alone, partial(_spread, rank)),
        reference=partial(_batched, _transposed, rank),
    )


def _instances(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    c = (draw.size(3),)
    for shape in ((2, *c, 5), (1, *c, 3, 8)):
        yield Sample((draw.array(shape),), condition=32)
        factors = {"weight": draw.array(c), "bias": draw.array(c)}
        yield Sample((draw.array(shape),), factors, condition=32)
    statistics = draw.array(c), draw.array(c, low=0.5, high=2.0)
    options = {"use_input_stats": False, "eps": 0.1}
    yield Sample((draw.array((2, *c, 5)), *statistics), options, gradient=(0,), condition=32)


def _instance(
    x: Any, mean: Any = None, var: Any = None, *, weight: Any = 1.0, bias: Any = 0.0,
    use_input_stats: bool = True, eps: float = 1e-5,
) -> Any:  # fmt: skip
    last = np.moveaxis(x, 1, -1)
    if use_input_stats:
        axes = tuple(range(1, last.ndim - 1))
        mean = np.mean(last, axis=axes, keepdims=True)
        var = np.var(last, axis=axes, keepdims=True)
    return np.moveaxis((last - mean) / np.sqrt(var + eps) * weight + bias, -1, 1)


Checked(ops.instance_norm, samples=_instances, reference=_instance)


def _bags(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    rows, width, n, m = draw.size(8, least=1), *draw.shape((3, 2, 5))
    table = draw.apart((rows, width))
    for mode in ("mean", "sum", "max"):
        indices = draw.integers((n, m), rows)
        yield Sample((indices, table), {"mode": mode}, gradient=mode != "max", condition=8)
    flat, starts = draw.integers((5,), rows), np.asarray([0, 2, 2])
    yield Sample((flat, table, starts), {"mode": "mean"}, condition=8)
    factors = {"mode": "sum", "per_sample_weights": draw.array((n, m))}
    yield Sample((draw.integers((n, m), rows), table), factors, condition=8)
    ignored = {"mode": "sum", "padding_idx": int(flat[0])}
    # The table's gradient leaves that row out by definition.
    yield Sample((flat, table, starts), ignored, gradient=False, condition=8)


def _bag(
    indices: Any, weight: Any, offsets: Any = None, *, mode: str = "mean",
    per_sample_weights: Any = None, padding_idx: int | None = None,
) -> Any:  # fmt: skip
    if offsets is not None:
        ends = [*offsets[1:], len(indices)]
        bags = [range(a, b) for a, b in zip(offsets, ends, strict=True)]
    else:
        n, m = indices.shape
        bags, indices = [range(i * m, (i + 1) * m) for i in range(n)], indices.reshape(-1)
    factors = np.ones(len(indices)) if per_sample_weights is None else per_sample_weights.ravel()
    reduce: Any = getattr(np, mode)
    out = np.zeros((len(bags), weight.shape[1]), weight.dtype)
    for i, bag in enumerate(bags):
        rows = [weight[indices[j]] * factors[j] for j in bag if indices[j] != padding_idx]
        if rows:
            out[i] = reduce(rows, axis=0)
    return out


Checked(ops.embedding_bag, samples=_bags, reference=_bag)

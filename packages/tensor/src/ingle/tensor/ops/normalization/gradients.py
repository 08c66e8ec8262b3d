"""The gradients of normalisation by all of its operands at once, for backends to take whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Scalar, Shape
from ...dispatch import TensorLike, handle_of, run
from ...dtypes import DType, float32
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import as_int, as_number, widened
from ..elementwise.cast import astype
from ..elementwise.powers import rsqrt
from ..movement.shapes import broadcast_to, reshape
from ..reductions.basic import sum

if TYPE_CHECKING:
    from ...tensor import Tensor

Axes = tuple[int, ...]

_TENSORS = ("g", "x", "weight", "mean")
_OUTPUTS = ("by_x", "by_weight", "by_bias")
_TRAITS = Traits("opaque", precision="high")


def layer_norm_gradient(
    g: TensorLike, x: TensorLike, weight: TensorLike | float, mean: TensorLike, rstd: TensorLike,
    axes: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The cotangents of `layer_norm`'s operands from that of its result.

    Args:
        g: of the result, like x.
        x: (..., *normalized_shape).
        weight: (*normalized_shape), or the number 1.
        mean, rstd: what `layer_norm_training` returns besides: 1 along the normalised axes.
        axes: how many axes are normalised.

    Returns:
        Those of x, weight and bias.
    """
    operands = _operands("layer_norm_gradient", g, x, weight, mean, rstd)
    return run(LAYER_NORM_GRADIENT.op(axes=as_int(axes, "layer_norm_gradient", "axes")), operands)


def _layer_rule(
    g: Aval, x: Aval, weight: Aval, mean: Aval, rstd: Aval, *, axes: int
) -> tuple[Aval, ...]:
    name, lead = "layer_norm_gradient", x.ndim - axes
    if lead < 0:
        raise ShapeError(f"{name}: x must have the {axes} axes to normalise, got {x}")
    one = (*x.shape[:lead], *(1,) * axes)
    return _check(name, g, x, weight, (mean, rstd), x.shape[lead:], one)


def _layer_body(
    g: Tensor, x: Tensor, weight: Tensor | float, mean: Tensor, rstd: Tensor, *, axes: int
) -> tuple[Tensor, Tensor, Tensor]:
    lead, last = tuple(range(x.ndim - axes)), tuple(range(x.ndim - axes, x.ndim))
    hat, flow = (widened(x) - mean) * rstd, widened(g)
    scaled = flow if isinstance(weight, float) else flow * widened(weight)
    found = _by_x(scaled, hat, rstd, last), sum(flow * hat, axis=lead), sum(flow, axis=lead)
    return _as(x.dtype, *found)


def _layer_samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    wide = float32 if draw.dtype.itemsize == 2 else draw.dtype
    for shape, axes in (((17, 8), 1), ((2, 3, 5), 2), ((0, 3), 1), ((33,), 1)):
        rest = (*shape[: len(shape) - axes], *(1,) * axes)
        statistics = draw.array(rest, dtype=wide), draw.array(rest, low=0.5, dtype=wide)
        g, x, weight = draw.array(shape), draw.array(shape), draw.array(shape[-axes:])
        yield Sample((g, x, weight, *statistics, axes), condition=64)
        yield Sample((g, x, 1.0, *statistics, axes), condition=64)


def _layer_reference(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, axes: int) -> Any:
    own = x.shape[x.ndim - axes :]
    rows = (math.prod(x.shape[: x.ndim - axes]), math.prod(own))
    along, hat = g.reshape(rows), ((x - mean) * rstd).reshape(rows)
    scaled = (g * weight).reshape(rows)
    by_x = [_pulled(*row) for row in zip(scaled, hat, rstd.reshape(-1), strict=True)]
    by_weight = np.einsum("ij,ij->j", along, hat)
    return np.reshape(by_x, x.shape), by_weight.reshape(own), along.sum(axis=0).reshape(own)


LAYER_NORM_GRADIENT = Operation(
    "layer_norm_gradient",
    tensors=(*_TENSORS, "rstd"),
    statics=("axes",),
    outputs=_OUTPUTS,
    rule=_layer_rule,
    traits=_TRAITS,
    body=_layer_body,
    public=layer_norm_gradient,
    samples=_layer_samples,
    reference=_layer_reference,
)


def batch_norm_gradient(
    g: TensorLike, x: TensorLike, weight: TensorLike | float, mean: TensorLike, var: TensorLike,
    eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The cotangents of `batch_norm_training`'s operands from that of its result.

    Args:
        g: of the result, like x.
        x: (batch, channels, ...).
        weight: (channels,), or the number 1.
        mean, var: (channels,), of the batch.
        eps: added to the variance.

    Returns:
        Those of x, weight and bias.
    """
    operands = _operands("batch_norm_gradient", g, x, weight, mean, var)
    return run(BATCH_NORM_GRADIENT.op(eps=as_number(eps, "batch_norm_gradient", "eps")), operands)


def _batch_rule(
    g: Aval, x: Aval, weight: Aval, mean: Aval, var: Aval, *, eps: float
) -> tuple[Aval, ...]:
    name = "batch_norm_gradient"
    if x.ndim < 2:
        raise ShapeError(f"{name}: x must be (batch, channels, ...), got {x}")
    return _check(name, g, x, weight, (mean, var), x.shape[1:2], x.shape[1:2])


def _batch_body(
    g: Tensor, x: Tensor, weight: Tensor | float, mean: Tensor, var: Tensor, *, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    others, one = (0, *range(2, x.ndim)), (-1, *(1,) * (x.ndim - 2))
    rstd = reshape(rsqrt(var + eps), one)
    hat, flow = (widened(x) - reshape(mean, one)) * rstd, widened(g)
    by_weight, by_bias = sum(flow * hat, axis=others), sum(flow, axis=others)
    count = max(1, math.prod(x.shape[a] for a in others))
    along, level = (reshape(s / count, one) for s in (by_weight, by_bias))
    # A channel has one weight, which scales what the two sums have made of g.
    scale = rstd if isinstance(weight, float) else rstd * reshape(widened(weight), one)
    return _as(x.dtype, (flow - level - hat * along) * scale, by_weight, by_bias)


def _batch_samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    wide = float32 if draw.dtype.itemsize == 2 else draw.dtype
    for shape in ((17, 3), (8, 2, 5), (3, 5, 2, 3)):
        c = shape[1:2]
        statistics = draw.array(c, dtype=wide), draw.array(c, low=0.5, dtype=wide)
        g, x, weight = draw.array(shape), draw.array(shape), draw.array(c)
        yield Sample((g, x, weight, *statistics, 1e-5), condition=64)
        yield Sample((g, x, 1.0, *statistics, 1e-5), condition=64)


def _batch_reference(g: Any, x: Any, weight: Any, mean: Any, var: Any, eps: float) -> Any:
    weights, rstd = np.broadcast_to(weight, mean.shape), 1 / np.sqrt(var + eps)
    by_x, by_weight, by_bias = np.empty(x.shape), np.empty(mean.shape), np.empty(mean.shape)
    for c in range(x.shape[1]):
        hat, flow = (x[:, c] - mean[c]).ravel() * rstd[c], g[:, c].ravel()
        by_x[:, c] = _pulled(flow * weights[c], hat, rstd[c]).reshape(x[:, c].shape)
        by_weight[c], by_bias[c] = flow @ hat, flow.sum()
    return by_x, by_weight, by_bias


BATCH_NORM_GRADIENT = Operation(
    "batch_norm_gradient",
    tensors=(*_TENSORS, "var"),
    statics=("eps",),
    outputs=_OUTPUTS,
    rule=_batch_rule,
    traits=_TRAITS,
    body=_batch_body,
    public=batch_norm_gradient,
    samples=_batch_samples,
    reference=_batch_reference,
)


def group_norm_gradient(
    g: TensorLike, x: TensorLike, weight: TensorLike | float, mean: TensorLike, rstd: TensorLike,
    groups: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The cotangents of `group_norm`'s operands from that of its result.

    Args:
        g: of the result, like x.
        x: (batch, channels, ...).
        weight: (channels,), or the number 1.
        mean, rstd: (batch, groups), what `group_norm_training` returns besides.
        groups: how many groups of channels there are.

    Returns:
        Those of x, weight and bias.
    """
    operands = _operands("group_norm_gradient", g, x, weight, mean, rstd)
    return run(GROUP_NORM_GRADIENT.op(groups=groups), operands)


def _group_rule(
    g: Aval, x: Aval, weight: Aval, mean: Aval, rstd: Aval, *, groups: int
) -> tuple[Aval, ...]:
    name = "group_norm_gradient"
    if x.ndim < 2 or (groups < 1 and x.shape[1]) or (groups and x.shape[1] % groups):
        raise ShapeError(
            f"{name}: x must be (batch, channels, ...) with channels that groups={groups} "
            f"divides, got {x}"
        )
    return _check(name, g, x, weight, (mean, rstd), x.shape[1:2], (x.shape[0], groups))


def _group_body(
    g: Tensor, x: Tensor, weight: Tensor | float, mean: Tensor, rstd: Tensor, *, groups: int
) -> tuple[Tensor, Tensor, Tensor]:
    rows = x.shape[0], groups, x.shape[1] // groups if groups else 0
    one = (*x.shape[:2], *(1,) * (x.ndim - 2))
    hat, flow = normalized_groups(x, mean, rstd), widened(g)
    # The sums of each channel serve all three: groups and batches only add them up.
    places = tuple(range(2, x.ndim))
    along, level = (sum(v, axis=places) if places else v for v in (flow * hat, flow))
    by_weight, by_bias = sum(along, axis=0), sum(level, axis=0)
    if not isinstance(weight, float):
        scale = widened(weight)
        along, level, flow = along * scale, level * scale, flow * reshape(scale, one[1:])
    count = max(1, math.prod(x.shape[1:]) // groups if groups else 0)
    along, level = (
        reshape(each_channel(sum(reshape(s, rows), axis=2) / count, x.shape), one)
        for s in (along, level)
    )
    by_x = (flow - level - hat * along) * reshape(each_channel(rstd, x.shape), one)
    return _as(x.dtype, by_x, by_weight, by_bias)


def each_channel(statistic: Tensor, shape: Shape) -> Tensor:
    """What groups (batch, groups) have of images of a shape, for each channel."""
    batch, groups = statistic.shape
    rows = batch, groups, shape[1] // groups if groups else 0
    return reshape(broadcast_to(reshape(statistic, (batch, groups, 1)), rows), shape[:2])


def normalized_groups(x: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    """x with mean 0 and variance 1 in each group, whose statistics (batch, groups) are known."""
    one = (*x.shape[:2], *(1,) * (x.ndim - 2))
    mean, rstd = (reshape(each_channel(s, x.shape), one) for s in (mean, rstd))
    return (widened(x) - mean) * rstd


def _group_samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    wide = float32 if draw.dtype.itemsize == 2 else draw.dtype
    for shape, groups in (((3, 8), 2), ((2, 3, 5), 3), ((2, 8, 3, 5), 1), ((0, 2, 3), 2)):
        rows = (shape[0], groups)
        statistics = draw.array(rows, dtype=wide), draw.array(rows, low=0.5, dtype=wide)
        g, x, weight = draw.array(shape), draw.array(shape), draw.array(shape[1:2])
        yield Sample((g, x, weight, *statistics, groups), condition=64)
        yield Sample((g, x, 1.0, *statistics, groups), condition=64)


def _group_reference(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, groups: int) -> Any:
    each, one = x.shape[1] // max(groups, 1), (-1, *(1,) * (x.ndim - 2))
    scaled = g * np.reshape(np.broadcast_to(weight, x.shape[1:2]), one)
    by_x, hats = np.empty(x.shape), np.empty(x.shape)
    for i, k in np.ndindex(mean.shape):
        here = (i, slice(k * each, (k + 1) * each))
        hats[here] = (x[here] - mean[i, k]) * rstd[i, k]
        flat = _pulled(scaled[here].ravel(), hats[here].ravel(), rstd[i, k])
        by_x[here] = flat.reshape(by_x[here].shape)
    others = (0, *range(2, x.ndim))
    return by_x, (g * hats).sum(axis=others), g.sum(axis=others)


GROUP_NORM_GRADIENT = Operation(
    "group_norm_gradient",
    tensors=(*_TENSORS, "rstd"),
    statics=("groups",),
    outputs=_OUTPUTS,
    rule=_group_rule,
    traits=_TRAITS,
    body=_group_body,
    public=group_norm_gradient,
    samples=_group_samples,
    reference=_group_reference,
)


def _operands(
    name: str, g: TensorLike, x: TensorLike, weight: TensorLike | float, *statistics: TensorLike
) -> list[Handle | Scalar]:
    image = handle_of(x, name)
    scale: Handle | Scalar
    if isinstance(weight, (int, float)):
        scale = Scalar(float(weight), image.dtype)
    else:
        scale = handle_of(weight, name, "weight")
    names = ("mean", "rstd" if name.startswith("layer") else "var")
    found = [handle_of(s, name, n) for n, s in zip(names, statistics, strict=True)]
    return [handle_of(g, name, "g"), image, scale, *found]


def _check(
    name: str, g: Aval, x: Aval, weight: Aval, statistics: tuple[Aval, Aval], own: Shape, one: Shape
) -> tuple[Aval, Aval, Aval]:
    if g != x or not x.dtype.is_floating:
        raise DTypeError(f"{name}: g and x must be alike and floats, got {g} and {x}")
    if weight.shape not in ((), own):
        raise ShapeError(f"{name}: weight must have shape {own}, got {weight}")
    if any(s.shape != one for s in statistics):
        names = "mean and rstd" if name.startswith("layer") else "mean and var"
        got = " and ".join(map(str, statistics))
        raise ShapeError(f"{name}: {names} must have shape {one}, got {got}")
    wide = float32 if x.dtype.itemsize == 2 else x.dtype
    if weight.dtype is not x.dtype or any(s.dtype is not wide for s in statistics):
        got = " and ".join(map(str, (weight, *statistics)))
        raise DTypeError(
            f"{name}: weight must be {x.dtype} and the statistics mean and var or rstd {wide}, "
            f"got {got}"
        )
    return x, Aval(own, x.dtype), Aval(own, x.dtype)


def _as(dtype: DType, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return astype(a, dtype), astype(b, dtype), astype(c, dtype)


def _by_x(g: Tensor, hat: Tensor, rstd: Tensor, axes: Axes) -> Tensor:
    """The cotangent of x from that of the normalised values `hat`.

    Both statistics depend on x: what g has in common with a constant and with `hat` falls out.
    """
    count = max(1, math.prod(hat.shape[a] for a in axes))
    along = sum(g * hat, axis=axes, keepdims=True) / count
    level = sum(g, axis=axes, keepdims=True) / count
    return (g - level - hat * along) * rstd


def _pulled(flow: Any, hat: Any, rstd: Any) -> Any:
    """A cotangent times the Jacobian of normalisation, a projection."""
    count = max(hat.size, 1)
    return rstd * (np.eye(hat.size) - 1 / count - np.outer(hat, hat) / count) @ flow

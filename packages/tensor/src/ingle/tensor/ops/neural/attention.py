"""Attention: every query takes an average of the values, weighted by how well the keys fit it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Scalar, Shape
from ...dispatch import TensorLike, handle_of, promote, run, wrap
from ...dtypes import DType, bool_, float32
from ...errors import DTypeError, ShapeError
from ...masks import check_mask
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import broadcast_shapes, widened
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.comparison import isfinite
from ..elementwise.exponential import exp, log
from ..elementwise.where import where
from ..linear_algebra.products import matmul
from ..movement.axes import expand_dims
from ..movement.shapes import broadcast_to, reshape
from ..reductions.basic import logsumexp, max, sum

if TYPE_CHECKING:
    from ...random import Generator
    from ...tensor import Tensor


_NAME = "scaled_dot_product_attention"


def _rule(query: Aval, key: Aval, value: Aval, mask: Aval, scale: Aval, *, causal: bool) -> Aval:
    if not query.dtype.is_floating:
        raise DTypeError(f"{_NAME}: query must be floats, got {query.dtype}; cast to float32")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"{_NAME}: query must be (..., L, E), key (..., S, E) and value (..., S, V), got "
            f"{query.shape}, {key.shape} and {value.shape}"
        )
    shapes = [x.shape[:-2] for x in (query, key, value)]
    lead = broadcast_shapes(_NAME, *shapes, arguments=("query", "key", "value"))
    scores = (*lead, query.shape[-2], key.shape[-2])
    fits = all(n in (1, m) for n, m in zip(mask.shape[::-1], scores[::-1], strict=False))
    if not fits or len(mask.shape) > len(scores):
        raise ShapeError(
            f"{_NAME}: attn_mask of shape {mask.shape} does not broadcast to {scores}"
        )  # fmt: skip
    return Aval((*lead, query.shape[-2], value.shape[-1]), query.dtype)


def training_rule(*avals: Aval, causal: bool) -> tuple[Aval, Aval]:
    out = _rule(*avals, causal=causal)
    return out, Aval(out.shape[:-1], _wide_dtype(out.dtype))


def _training(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | bool, scale: float, *, causal: bool
) -> tuple[Tensor, Tensor]:
    shares, lse = shares_of(scores_of(query, key, mask, scale, causal))
    out = matmul(astype(shares, value.dtype), value)
    return out, broadcast_to(lse, out.shape[:-1])


def shares_of(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The softmax of scores, and the logarithms of their sums of exponentials."""
    if not scores.size:
        return scores, logsumexp(scores, axis=-1)
    top = max(scores, axis=-1, keepdims=True)
    # Where no key may be seen every score is -inf, and so is their maximum.
    top = where(isfinite(top), top, 0.0)
    e = exp(scores - top)
    total = sum(e, axis=-1, keepdims=True)
    shares = e / where(total == 0, 1.0, total)
    return shares, reshape(log(total) + top, scores.shape[:-1])


def shares_by(scores: Tensor, lse: Tensor) -> Tensor:
    """The softmax of scores once more, from those logarithms."""
    return exp(scores - reshape(where(isfinite(lse), lse, 0.0), (*lse.shape, 1)))


def _vjp(
    g: tuple[Tensor | None, Tensor | None], query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | bool, scale: float, out: Tensor, lse: Tensor, causal: bool,
    needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    from .attention_gradients import ATTENTION_GRADIENT, gradients

    if g[0] is not None and g[1] is None and not needs[3]:
        given = g[0], query, key, value, mask, scale, out, lse
        found = run(ATTENTION_GRADIENT.op(causal=causal), with_numbers(given, query.dtype))
        return (*[x if need else None for x, need in zip(found, needs, strict=False)], None)
    return gradients(g, query, key, value, mask, scale, out, lse, causal, needs)


def samples_of(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    shapes: tuple[tuple[Shape, Shape, Shape], ...] = (
        ((3, 5), (8, 5), (8, 2)),
        ((2, 3, 5, 8), (2, 3, 5, 8), (2, 3, 5, 8)),
    )
    for q, k, v in shapes:
        arrays = draw.array(q), draw.array(k), draw.array(v)
        seen = np.ones((q[-2], k[-2]), np.bool_)
        seen[1, 1:] = False
        yield Sample(arrays, condition=64)
        yield Sample(arrays, {"is_causal": True, "scale": 0.5}, condition=64)
        yield Sample((*arrays, seen), condition=64)
        yield Sample((*arrays, draw.array((q[-2], k[-2]))), condition=64)


def shares_in_numpy(
    query: Any, key: Any, attn_mask: Any, is_causal: bool, scale: float | None
) -> tuple[Any, Any]:  # fmt: skip
    """The shares of keys and the logarithms, for references."""
    from scipy.special import logsumexp as oracle

    scores = np.einsum("...le,...se->...ls", query, key)
    scores = scores * ((query.shape[-1] or 1) ** -0.5 if scale is None else scale)
    if attn_mask is not None and attn_mask.dtype == np.bool_:
        scores = np.where(attn_mask, scores, -np.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    lse = oracle(scores, axis=-1)
    return np.exp(scores - lse[..., None]), lse


def _training_reference(
    query: Any, key: Any, value: Any, attn_mask: Any = None, *, is_causal: bool = False,
    scale: float | None = None,
) -> Any:  # fmt: skip
    shares, lse = shares_in_numpy(query, key, attn_mask, is_causal, scale)
    return np.einsum("...ls,...sv->...lv", shares, value), lse


TENSORS = ("query", "key", "value", "mask", "scale")
TRAITS = Traits("opaque", precision="low", bound="compute")


@guarded
def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    *,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """`softmax(query @ key.mT * scale + mask) @ value` (Vaswani et al., arXiv 1706.03762).

    Args:
        query: (..., L, E), floats.
        key: (..., S, E).
        value: (..., S, V).
        attn_mask: broadcasts to (..., L, S): bools, of which the true ones take part, or floats,
            which are added to the scores.
        dropout_p: with which probability a key is left out of a query's average; the others count
            more in its place.
        is_causal: whether query i sees only the keys up to i.
        scale: what the scores are multiplied by; 1 / sqrt(E) if not given.
        enable_gqa: whether several heads of queries, neighbours on axis -3, share one of the fewer
            heads of keys and values (Ainslie et al., arXiv 2305.13245).
        generator: of the dropout; the default generator if not given.

    Returns:
        (..., L, V); zeros for a query that may see no key.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: the mask is of integers.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[0.0, 0.0], [0.0, 0.0]])
    >>> it.scaled_dot_product_attention(x, x, it.asarray([[1.0], [3.0]])).tolist()
    [[2.0], [2.0]]
    """
    if enable_gqa:
        more: dict[str, Any] = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
        return _grouped(query, key, value, attn_mask, generator=generator, **more)
    operands = operands_of(query, key, value, attn_mask, scale)
    if dropout_p:
        from .attention_dropout import dropped

        return dropped(operands, dropout_p, is_causal, generator)
    return run(_CAUSAL if is_causal else _WHOLE, operands)[0]


def _grouped(
    query: TensorLike, key: TensorLike, value: TensorLike, attn_mask: TensorLike | None,
    **options: Any,
) -> Tensor:  # fmt: skip
    """Attention of groups of heads, which share keys and values by broadcasting."""
    named = ("query", query), ("key", key), ("value", value)
    q, k, v = (wrap(handle_of(x, _NAME, argument)) for argument, x in named)
    heads, shared = q.shape[-3] if q.ndim > 2 else 0, k.shape[-3] if k.ndim > 2 else 0
    if not shared or v.shape[-3:-2] != (shared,) or heads % shared:
        raise ShapeError(
            f"{_NAME}: with enable_gqa key and value must have the same number of heads on axis "
            f"-3, which divides that of query, got {q.shape}, {k.shape} and {v.shape}"
        )
    split = (*q.shape[:-3], shared, heads // shared, *q.shape[-2:])
    if attn_mask is not None:
        mask = wrap(handle_of(attn_mask, _NAME, "attn_mask"))
        if mask.ndim > 2:
            of_heads = (shared, heads // shared) if mask.shape[-3] == heads else (1, 1)
            attn_mask = reshape(mask, (*mask.shape[:-3], *of_heads, *mask.shape[-2:]))
    k, v = expand_dims(k, axis=-3), expand_dims(v, axis=-3)
    out = scaled_dot_product_attention(reshape(q, split), k, v, attn_mask, **options)
    return reshape(out, (*out.shape[:-4], heads, *out.shape[-2:]))


def _attention(*operands: Any, causal: bool) -> Tensor:
    return _training(*operands, causal=causal)[0]


def _grouped_samples(draw: Draw) -> Iterator[Sample]:
    yield from samples_of(draw)
    if draw.dtype.is_floating:
        arrays = draw.array((2, 4, 3, 5)), draw.array((2, 2, 8, 5)), draw.array((2, 2, 8, 3))
        seen = np.arange(4 * 3 * 8).reshape(4, 3, 8) % 3 > 0
        yield Sample((*arrays, seen), {"enable_gqa": True}, condition=64)


def _reference(*arrays: Any, enable_gqa: bool = False, **options: Any) -> Any:
    if enable_gqa:
        query, key, value, *mask = arrays
        times = query.shape[-3] // key.shape[-3]
        arrays = (query, np.repeat(key, times, -3), np.repeat(value, times, -3), *mask)
    return _training_reference(*arrays, **options)[0]


@guarded
def attention_training(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """Attention with the logarithm of the sum of the exponentials of each query's scores."""
    operands = operands_of(query, key, value, attn_mask, scale)
    return run(ATTENTION_TRAINING.op(causal=bool(is_causal)), operands)


ATTENTION_TRAINING = Operation(
    "scaled_dot_product_attention_training",
    tensors=TENSORS,
    statics=("causal",),
    outputs=("out", "lse"),
    rule=training_rule,
    traits=TRAITS,
    vjp={("query", "key", "value", "mask"): _vjp},
    body=_training,
    public=attention_training,
    samples=samples_of,
    reference=_training_reference,
)

ATTENTION = Operation(
    "scaled_dot_product_attention",
    tensors=TENSORS,
    statics=("causal",),
    rule=_rule,
    traits=TRAITS,
    body=_attention,
    training=ATTENTION_TRAINING,
    public=scaled_dot_product_attention,
    samples=_grouped_samples,
    reference=_reference,
)
_WHOLE, _CAUSAL = ATTENTION.op(causal=False), ATTENTION.op(causal=True)


def with_numbers(given: Sequence[Any], dtype: DType) -> list[Handle | Scalar]:
    """Tensors as handles, truths and factors as numbers."""
    found: list[Handle | Scalar] = []
    for x in given:
        if isinstance(x, bool):
            found.append(Scalar(x, bool_))
        else:
            found.append(Scalar(x, dtype) if isinstance(x, float) else x._handle)
    return found


def operands_of(
    query: TensorLike, key: TensorLike, value: TensorLike, attn_mask: TensorLike | None,
    scale: float | None,
) -> list[Handle | Scalar]:  # fmt: skip
    named = ("query", query), ("key", key), ("value", value)
    for argument, x in named:
        shape = handle_of(x, _NAME, argument).shape
        if len(shape) < 2:
            raise ShapeError(f"{_NAME}: {argument} needs at least 2 axes, got shape {shape}")
    handles = promote(_NAME, *named)
    dtype = handles[0].dtype
    mask: Handle | Scalar = Scalar(True, bool_)
    if attn_mask is not None:
        mask = handle_of(attn_mask, _NAME, "attn_mask")
        check_mask(_NAME, "attn_mask", mask.dtype, "takes part")
        if mask.dtype is not bool_:
            mask = astype(attn_mask, dtype)._handle
        if not mask.shape:  # no axes is what stands for no mask
            mask = reshape(wrap(mask), (1, 1))._handle
    size = handles[0].shape[-1]
    factor = 1.0 / math.sqrt(size or 1) if scale is None else float(scale)
    return [*handles, mask, Scalar(factor, dtype)]


def _wide_dtype(dtype: DType) -> DType:
    return float32 if dtype.itemsize == 2 else dtype


def scores_of(
    query: Tensor, key: Tensor, mask: Tensor | bool, scale: float, causal: bool
) -> Tensor:
    """What goes into softmax, in float32 for half types; -inf where a key may not be seen."""
    found = widened(matmul(query, key.mT)) * scale
    if causal:
        rows, columns = found.shape[-2:]
        device = query.device
        below = reshape(arange(rows, device=device), (rows, 1)) >= arange(columns, device=device)
        found = where(below, found, -math.inf)
    if isinstance(mask, bool):
        return found
    return where(mask, found, -math.inf) if mask.dtype is bool_ else found + widened(mask)

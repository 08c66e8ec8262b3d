"""What a gradient of attention's result means for query, key, value and mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, run
from ...errors import ShapeError
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import sum_to, widened
from ..elementwise.cast import astype
from ..linear_algebra.products import matmul
from ..movement.shapes import reshape
from ..reductions.basic import sum
from .attention import (
    ATTENTION_TRAINING,
    TENSORS,
    TRAITS,
    operands_of,
    samples_of,
    scores_of,
    shares_by,
    shares_in_numpy,
    training_rule,
)

if TYPE_CHECKING:
    from ...tensor import Tensor

RESULTS = ("by_query", "by_key", "by_value")


def gradients(
    g: tuple[Tensor | None, Tensor | None], query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | bool, scale: float, out: Tensor, lse: Tensor, causal: bool,
    needs: Sequence[bool], taking_part: Callable[[Tensor], Tensor] = lambda x: x,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The scores are computed again: only a number for each query was kept of them.

    Args:
        g: the gradients of the result and of the logarithms, if they have one.
        query, key, value, mask, scale, causal: of attention.
        out, lse: its results.
        needs: which of query, key, value and mask want a gradient.
        taking_part: makes of what stands for all keys what stands for those that take part.
    """
    dtype = query.dtype
    scores = scores_of(query, key, mask, scale, causal)
    shares = shares_by(scores, lse)
    by_value: Tensor | None = None
    level: Tensor | float = 0.0
    pull: Tensor | float = 0.0
    if g[0] is not None:
        pull = taking_part(widened(matmul(g[0], value.mT)))
        level = sum(widened(g[0]) * widened(out), axis=-1, keepdims=True)
        weights = astype(taking_part(shares), dtype)
        by_value = sum_to(matmul(weights.mT, g[0]), value.shape)
    if g[1] is not None:
        level = level - reshape(g[1], (*g[1].shape, 1))
    by_scores = shares * (pull - level)
    flow = astype(by_scores * scale, dtype)
    return (
        sum_to(matmul(flow, key), query.shape) if needs[0] else None,
        sum_to(matmul(flow.mT, query), key.shape) if needs[1] else None,
        by_value if needs[2] else None,
        sum_to(astype(by_scores, dtype), mask.shape) if needs[3] else None,  # type: ignore[union-attr]
    )


def gradient_rule(
    name: str, g: Aval, operands: Sequence[Aval], out: Aval, lse: Aval, causal: bool
) -> tuple[Aval, ...]:
    """What the gradients of attention's query, key and value are.

    Raises:
        ShapeError: a gradient or a result is not what attention gives of the operands.
    """
    made = training_rule(*operands, causal=causal)
    for argument, x, wanted in (("g", g, made[0]), ("out", out, made[0]), ("lse", lse, made[1])):
        if x != wanted:
            raise ShapeError(f"{name}: {argument} must be {wanted}, as attention gives it, got {x}")
    return tuple(operands[:3])


def gradient_samples_of(samples: Iterator[Sample], draw: Draw) -> Iterator[Sample]:
    """Those of attention with a gradient in front, where the mask needs none."""
    for sample in samples:
        query, _, value, *mask = sample.args
        if not mask or mask[0].dtype == np.bool_:
            g = draw.array((*query.shape[:-1], value.shape[-1]))
            yield Sample((g, *sample.args), sample.kwargs, condition=512, magnitude=8.0)


def reference_of(
    g: Any, query: Any, key: Any, value: Any, shares: Any, kept: Any, scale: float | None
) -> Any:
    """The gradients in NumPy, from the shares of keys and what each of these counts."""
    factor = (query.shape[-1] or 1) ** -0.5 if scale is None else scale
    pull = np.einsum("...lv,...sv->...ls", g, value) * kept
    flow = shares * (pull - np.sum(shares * pull, -1, keepdims=True)) * factor
    return (
        np.einsum("...ls,...se->...le", flow, key), np.einsum("...ls,...le->...se", flow, query),
        np.einsum("...ls,...lv->...sv", shares * kept, g),
    )  # fmt: skip


@guarded
def attention_gradient(
    g: TensorLike,
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """What a gradient g of attention's result means for query, key and value."""
    operands = operands_of(query, key, value, attn_mask, scale)
    made = run(ATTENTION_TRAINING.op(causal=bool(is_causal)), operands)
    given = [handle_of(g, "attention_gradient", "g"), *operands, *[x._handle for x in made]]
    return run(ATTENTION_GRADIENT.op(causal=bool(is_causal)), given)


def _body(
    g: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | bool, scale: float,
    out: Tensor, lse: Tensor, *, causal: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    needs = (True, True, True, False)
    return gradients((g, None), query, key, value, mask, scale, out, lse, causal, needs)[:3]


def _rule(*avals: Aval, causal: bool) -> tuple[Aval, ...]:
    g, *operands, out, lse = avals
    return gradient_rule("attention_gradient", g, operands, out, lse, causal)


def _samples(draw: Draw) -> Iterator[Sample]:
    return gradient_samples_of(samples_of(draw), draw)


def _reference(
    g: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, *, is_causal: bool = False,
    scale: float | None = None,
) -> Any:  # fmt: skip
    shares, _ = shares_in_numpy(query, key, attn_mask, is_causal, scale)
    return reference_of(g, query, key, value, shares, 1.0, scale)


ATTENTION_GRADIENT = Operation(
    "scaled_dot_product_attention_gradient",
    tensors=("g", *TENSORS, "out", "lse"),
    statics=("causal",),
    outputs=RESULTS,
    rule=_rule,
    traits=TRAITS,
    body=_body,
    public=attention_gradient,
    samples=_samples,
    reference=_reference,
)

"""Attention in which each query leaves out keys at random.

Which ones is a function of a place in the random stream, as in `dropout`: the score of a query and
a key has the word that `random_bits` gives an element of the scores' shape. So it is never stored:
a kernel that meets the scores in any order computes it where it needs it, and so does the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Scalar
from ...dispatch import TensorLike, handle_of, run
from ...errors import ArgumentError
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from ..elementwise.cast import astype
from ..elementwise.where import where
from ..linear_algebra.products import matmul
from ..movement.shapes import broadcast_to
from ..random.bits import WORDS, Place, as_words, bits_at, blocks, reference_bits
from .attention import (
    TENSORS,
    TRAITS,
    operands_of,
    samples_of,
    scores_of,
    shares_in_numpy,
    shares_of,
    training_rule,
    with_numbers,
)
from .attention_gradients import (
    RESULTS,
    gradient_rule,
    gradient_samples_of,
    gradients,
    reference_of,
)

if TYPE_CHECKING:
    from ...tensor import Tensor

_NAME = "scaled_dot_product_attention"
_WORDS = 1 << 32


def threshold(p: float) -> int:
    """The random words below it leave a key out; so does the largest, with certainty.

    >>> threshold(0.5) == 1 << 31
    True
    """
    return min(round(p * _WORDS), _WORDS - 1)


def factor(p: float) -> float:
    """What the others count more."""
    return 1.0 / (1.0 - p) if p < 1 else 0.0


def dropped(operands: Sequence[Handle | Scalar], p: float, causal: bool, generator: Any) -> Tensor:
    """Attention of what `operands_of` gives, at the generator's next place."""
    from ...random.generator import draws_from

    if not 0 <= p <= 1:
        raise ArgumentError(f"{_NAME}: dropout_p must be a probability in [0, 1], got {p}")
    out, _ = training_rule(*[Aval(x.shape, x.dtype) for x in operands], causal=causal)
    scores = (*out.shape[:-1], operands[1].shape[-2])
    place = draws_from(_NAME, generator).draw(blocks(scores))
    return _run(operands, p, causal, place.words())[0]


def _run(
    operands: Sequence[Handle | Scalar], p: float, causal: bool, words: Sequence[int]
) -> tuple[Tensor, ...]:
    op = ATTENTION_DROPOUT.op(causal=bool(causal), p=float(p))
    return run(op, (*operands, *as_words(words)))


def _rule(*avals: Aval, causal: bool, p: float) -> tuple[Aval, Aval]:
    return training_rule(*avals[: len(TENSORS)], causal=causal)


def _kept(key: Tensor, queries: Sequence[int], p: float, words: Sequence[Any]) -> Tensor:
    """Which keys take part, for all queries of all heads; values may have more of these."""
    return bits_at(words, (*queries, key.shape[-2]), key.device) >= threshold(p)


def _body(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | bool, scale: float, *words: Any,
    causal: bool, p: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    scores = scores_of(query, key, mask, scale, causal)
    shares, lse = shares_of(scores)
    queries = (*_lead(query, key, value), query.shape[-2])
    shares = where(_kept(key, queries, p, words), shares * factor(p), 0.0)
    out = matmul(astype(shares, value.dtype), value)
    return out, broadcast_to(lse, out.shape[:-1])


def _lead(*operands: Tensor) -> tuple[int, ...]:
    return np.broadcast_shapes(*[x.shape[:-2] for x in operands])


def _gradient(
    g: tuple[Tensor | None, Tensor | None], query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | bool, scale: float, words: Sequence[Any], out: Tensor, lse: Tensor,
    causal: bool, p: float, needs: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Random words are computed again, as scores are."""
    kept = None if g[0] is None else _kept(key, out.shape[:-1], p, words)

    def taking_part(x: Tensor) -> Tensor:
        assert kept is not None
        return where(kept, x * factor(p), 0.0)

    given = g, query, key, value, mask, scale, out, lse, causal, needs
    return gradients(*given, taking_part)


def _vjp(
    g: tuple[Tensor | None, Tensor | None], query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | bool, scale: float, key_low: Any, key_high: Any, counter_low: Any,
    counter_high: Any, out: Tensor, lse: Tensor, causal: bool, p: float, needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    words = key_low, key_high, counter_low, counter_high
    if g[0] is not None and g[1] is None and not needs[3]:
        operands = with_numbers((g[0], query, key, value, mask, scale), query.dtype)
        results = with_numbers((out, lse), query.dtype)
        op = ATTENTION_DROPOUT_GRADIENT.op(causal=causal, p=p)
        found = run(op, (*operands, *as_words(words), *results))
        return (*[x if need else None for x, need in zip(found, needs, strict=False)], None)
    return _gradient(g, query, key, value, mask, scale, words, out, lse, causal, p, needs)


def _samples(draw: Draw) -> Iterator[Sample]:
    for number, sample in enumerate(samples_of(draw)):
        more = {"p": 0.25, "place": (5, number + (1 << 32) - 7)}
        yield Sample(sample.args, {**sample.kwargs, **more}, condition=64)


def _reference(
    query: Any, key: Any, value: Any, attn_mask: Any = None, *, p: float, place: tuple[int, int],
    is_causal: bool = False, scale: float | None = None,
) -> Any:  # fmt: skip
    shares, lse = shares_in_numpy(query, key, attn_mask, is_causal, scale)
    kept = reference_bits(shares.shape, place) >= threshold(p)
    return np.einsum("...ls,...sv->...lv", shares * kept * factor(p), value), lse


@guarded
def attention_dropout(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    *,
    p: float,
    place: tuple[int, int],
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """Attention that leaves out keys, and the logarithm of each query's sum of exponentials.

    Args:
        p: with which probability.
        place: a key and counter to draw at; see `random_bits`.
    """
    operands = operands_of(query, key, value, attn_mask, scale)
    return _run(operands, p, is_causal, Place.of("attention_dropout", place).words())


ATTENTION_DROPOUT = Operation(
    "scaled_dot_product_attention_dropout",
    tensors=(*TENSORS, *WORDS),
    statics=("causal", "p"),
    outputs=("out", "lse"),
    rule=_rule,
    traits=TRAITS,
    vjp={("query", "key", "value", "mask"): _vjp},
    body=_body,
    public=attention_dropout,
    samples=_samples,
    reference=_reference,
)


def _gradient_rule(*avals: Aval, causal: bool, p: float) -> tuple[Aval, ...]:
    g, operands, (out, lse) = avals[0], avals[1 : 1 + len(TENSORS)], avals[-2:]
    return gradient_rule("attention_dropout_gradient", g, operands, out, lse, causal)


def _gradient_body(
    g: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | bool, scale: float,
    key_low: Any, key_high: Any, counter_low: Any, counter_high: Any, out: Tensor, lse: Tensor,
    *, causal: bool, p: float,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    words, needs = (key_low, key_high, counter_low, counter_high), (True, True, True, False)
    given = (g, None), query, key, value, mask, scale, words, out, lse, causal, p, needs
    return _gradient(*given)[:3]


def _gradient_samples(draw: Draw) -> Iterator[Sample]:
    return gradient_samples_of(_samples(draw), draw)


def _gradient_reference(
    g: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, *, p: float,
    place: tuple[int, int], is_causal: bool = False, scale: float | None = None,
) -> Any:  # fmt: skip
    shares, _ = shares_in_numpy(query, key, attn_mask, is_causal, scale)
    kept = (reference_bits(shares.shape, place) >= threshold(p)) * factor(p)
    return reference_of(g, query, key, value, shares, kept, scale)


@guarded
def attention_dropout_gradient(
    g: TensorLike,
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    *,
    p: float,
    place: tuple[int, int],
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """What a gradient g of the result of `attention_dropout` means for query, key and value."""
    operands = operands_of(query, key, value, attn_mask, scale)
    words = Place.of("attention_dropout_gradient", place).words()
    made = _run(operands, p, is_causal, words)
    given = handle_of(g, "attention_dropout_gradient", "g")
    op = ATTENTION_DROPOUT_GRADIENT.op(causal=bool(is_causal), p=float(p))
    return run(op, (given, *operands, *as_words(words), *[x._handle for x in made]))


ATTENTION_DROPOUT_GRADIENT = Operation(
    "scaled_dot_product_attention_dropout_gradient",
    tensors=("g", *TENSORS, *WORDS, "out", "lse"),
    statics=("causal", "p"),
    outputs=RESULTS,
    rule=_gradient_rule,
    traits=TRAITS,
    body=_gradient_body,
    public=attention_dropout_gradient,
    samples=_gradient_samples,
    reference=_gradient_reference,
)

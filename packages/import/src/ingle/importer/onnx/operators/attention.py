"""Attention, and what models put around it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import dtype_of, on_device, tensor

if TYPE_CHECKING:
    from ..running import Body


def _heads(x: Tensor, count: int | None, name: str) -> Tensor:
    """[batch, steps, heads * size] as [batch, heads, steps, size]."""
    if x.ndim == 4:
        return x
    if not count:
        raise ModelError(f"Attention: {name} has three axes, so {name}_num_heads is needed")
    n, steps, width = x.shape
    return it.permute_dims(it.reshape(x, (n, steps, count, width // count)), (0, 2, 1, 3))


def _packed(x: Tensor) -> Tensor:
    n, heads, steps, size = x.shape
    return it.reshape(it.permute_dims(x, (0, 2, 1, 3)), (n, steps, heads * size))


def _shared(x: Tensor, heads: int) -> Tensor:
    """Each head of keys or values for as many heads of queries as share it."""
    return x if x.shape[1] == heads else it.repeat(x, heads // x.shape[1], axis=1)


@operator("Attention")
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_k: Tensor | None = None,
    past_v: Tensor | None = None, lengths: Tensor | None = None, *, is_causal: int = 0,
    kv_num_heads: int | None = None, left_window_size: int = -1, q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, right_window_size: int = -1, scale: float | None = None,
    softcap: float = 0.0, softmax_precision: int | None = None, outputs: int,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Scaled dot products with a cache, shared heads, masks, windows and a soft limit.

    Args:
        q, k, v: [batch, heads, steps, size], or with heads in the last axis.
        mask: bool, where True takes part, or float, which is added.
        past_k, past_v: what stands before `k` and `v`.
        lengths: how many keys of each sample are no padding.
    """
    packed = q.ndim == 3
    q, k, v = (
        _heads(x, count, name)
        for x, count, name in (
            (q, q_num_heads, "q"),
            (k, kv_num_heads, "kv"),
            (v, kv_num_heads, "kv"),
        )
    )
    before = 0
    if past_k is not None and past_v is not None:
        before = past_k.shape[2]
        k, v = it.concat([past_k, k], axis=2), it.concat([past_v, v], axis=2)
    keys, values = _shared(k, q.shape[1]), _shared(v, q.shape[1])
    factor = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    products = it.matmul(q * factor, keys.mT * factor)
    seen = [products]
    scores = products if not softcap else softcap * it.tanh(products / softcap)
    seen.append(scores)
    allowed = _allowed(
        q.shape[2], k.shape[2], before, lengths, bool(is_causal), left_window_size,
        right_window_size, q,
    )  # fmt: skip
    if mask is not None:
        mask, there = _whole_mask(mask, k.shape[2])
        if mask.dtype is it.bool_:
            allowed = mask if allowed is None else it.logical_and(allowed, mask)
        else:
            scores = scores + mask.astype(scores.dtype)
            if there is not None:
                allowed = there if allowed is None else it.logical_and(allowed, there)
    if allowed is not None:
        scores = it.where(
            allowed, scores, it.asarray(-math.inf, dtype=scores.dtype, device=q.device)
        )
    seen.append(scores)
    wide = (
        scores
        if softmax_precision is None
        else scores.astype(on_device(dtype_of(softmax_precision)))
    )
    probabilities = it.softmax(wide, axis=-1)
    if allowed is not None or mask is not None:
        # A row without any key is NaN, and to be zeros.
        some = it.any(it.isfinite(wide), axis=-1, keepdims=True)
        probabilities = it.where(some, probabilities, it.zeros_like(probabilities))
    probabilities = probabilities.astype(scores.dtype)
    seen.append(probabilities)
    y = it.matmul(probabilities, values)
    return (_packed(y) if packed else y, k, v, seen[qk_matmul_output_mode])[: max(outputs, 1)]


def _whole_mask(mask: Tensor, keys: int) -> tuple[Tensor, Tensor | None]:
    """As wide as there are keys; those that it does not reach take no part."""
    short = keys - mask.shape[-1]
    if not short or mask.shape[-1] == 1:
        return mask, None
    widths = [(0, 0)] * (mask.ndim - 1) + [(0, short)]
    there = it.asarray(np.arange(keys) < mask.shape[-1], device=mask.device)
    if mask.dtype is it.bool_:
        return it.pad(mask.astype(it.uint8), widths).astype(it.bool_), None
    return it.pad(mask, widths), there


def _allowed(
    queries: int, keys: int, before: int, lengths: Tensor | None, causal: bool, left: int,
    right: int, like: Tensor,
) -> Tensor | None:  # fmt: skip
    """Which keys each query may see, by their places; None for all."""
    if lengths is None and not causal and left < 0 and right < 0:
        return None
    column = it.arange(keys, dtype=it.int64, device=like.device)
    row = it.expand_dims(it.arange(queries, dtype=it.int64, device=like.device), -1)
    place = row + before
    found: Tensor | None = None
    if lengths is not None:
        each = it.reshape(lengths.astype(it.int64), (-1, 1, 1, 1))
        place = row + (each - queries)
        found = it.broadcast_to(column < each, (lengths.shape[0], 1, queries, keys))
    rules = []
    if causal:
        rules.append(column <= place)
    if left >= 0:
        rules.append(column >= place - left)
    if right >= 0:
        rules.append(column <= place + right)
    for rule in rules:
        found = rule if found is None else it.logical_and(found, rule)
    return found


@operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    q: Tensor, k: Tensor, v: Tensor, *, prob_mod: Body | None = None, scale: float | None = None,
    score_mod: Body | None = None, softmax_precision: int | None = None,
) -> Tensor:  # fmt: skip
    """Attention whose scores and probabilities pass through graphs of the model."""
    to = on_device(dtype_of(softmax_precision)) if softmax_precision else None
    if to is None:
        to = it.float64 if q.dtype is it.float64 else it.float32
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = (it.matmul(q, _shared(k, q.shape[1]).mT) * factor).astype(to)
    if score_mod is not None:
        scores = tensor(score_mod(scores)[0], q.device)
    probabilities = it.softmax(scores, axis=-1)
    if prob_mod is not None:
        probabilities = tensor(prob_mod(probabilities)[0], q.device)
    return it.matmul(probabilities.astype(v.dtype), _shared(v, q.shape[1]))


@operator("RotaryEmbedding")
def rotary_embedding(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None = None, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Tensor:  # fmt: skip
    """Pairs of elements turned by an angle that grows with the place (arXiv 2104.09864)."""
    packed = x.ndim == 3
    heads = _heads(x, num_heads, "x") if packed else x
    size = rotary_embedding_dim or heads.shape[-1]
    turned, rest = heads[..., :size], heads[..., size:]
    if positions is not None:
        flat = it.reshape(positions, (-1,))
        cos = it.reshape(it.take(cos, flat, axis=0), (*positions.shape, cos.shape[-1]))
        sin = it.reshape(it.take(sin, flat, axis=0), (*positions.shape, sin.shape[-1]))
    cos, sin = (it.expand_dims(t[..., : size // 2], 1) for t in (cos, sin))
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = turned[..., : size // 2], turned[..., size // 2 :]
    first, second = a * cos - b * sin, a * sin + b * cos
    if interleaved:
        turned = it.reshape(it.stack([first, second], axis=-1), turned.shape)
    else:
        turned = it.concat([first, second], axis=-1)
    y = it.concat([turned, rest], axis=-1) if rest.shape[-1] else turned
    return _packed(y) if packed else y


RULES = ("linear", "gated", "delta", "gated_delta")


@operator("LinearAttention")
def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, past: Tensor | None = None, decay: Tensor | None = None,
    beta: Tensor | None = None, *, chunk_size: int = 64, kv_num_heads: int, q_num_heads: int,
    scale: float = 0.0, update_rule: str = "gated_delta",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention as a recurrence: a matrix of each head forgets, takes in a pair, and is asked."""
    if update_rule not in RULES:
        raise ModelError(f"LinearAttention: update_rule must be one of {', '.join(RULES)}")
    to = it.float64 if q.dtype is it.float64 else it.float32
    dtype = q.dtype
    q, k, v = (
        _heads(x.astype(to), count, "q")
        for x, count in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads))
    )
    n, _, steps, width = k.shape
    factor = scale or 1 / math.sqrt(q.shape[-1])
    shape = (n, kv_num_heads, width, v.shape[-1])
    state = it.zeros(shape, dtype=to, device=q.device) if past is None else past.astype(to)
    gate = rate = None
    if update_rule.startswith("gated"):
        if decay is None:
            raise ModelError(f"LinearAttention: the rule {update_rule!r} needs decay")
        gate = it.exp(_heads(decay.astype(to), kv_num_heads, "kv"))
    if update_rule.endswith("delta"):
        if beta is None:
            raise ModelError(f"LinearAttention: the rule {update_rule!r} needs beta")
        wide = it.broadcast_to(beta.astype(to), (n, steps, kv_num_heads))
        rate = _heads(wide, kv_num_heads, "kv")
    given = []
    for t in range(steps):
        key, value = it.expand_dims(k[:, :, t], -1), it.expand_dims(v[:, :, t], -2)
        if gate is not None:
            state = state * it.expand_dims(gate[:, :, t], -1)
        if rate is not None:
            value = (value - it.matmul(key.mT, state)) * it.expand_dims(rate[:, :, t], -1)
        state = state + key * value
        asked = it.expand_dims(q[:, :, t], -2)
        given.append(it.matmul(asked, _shared(state, q_num_heads)) * factor)
    y = _packed(it.concat(given, axis=2)).astype(dtype)
    return y, state.astype(dtype if past is None else past.dtype)

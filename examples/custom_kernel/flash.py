"""Attention that never holds its scores, as an operation of one's own with a gradient.

Dao et al., FlashAttention (arXiv 2205.14135): each query keeps its largest score so far and the sum
of exponentials under it, and mends both when a larger one comes. The gradient needs the logarithm
of that sum alone, and computes the scores again.

What stands here holds on any device: shapes, gradient, and a body in terms of other operations.
`sources.py` adds kernels for devices that take plain C, OpenCL C or CUDA C++.
"""

import math

from sources import WRITERS, kernel_of

import ingle.tensor as it
from ingle.fusion.device import register_kernel
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.dispatch import TensorLike, handle_of, promote, run
from ingle.tensor.errors import DTypeError, ShapeError
from ingle.tensor.operation import Operation, Traits


def flash_attention(
    query: TensorLike, key: TensorLike, value: TensorLike, *, is_causal: bool = False
) -> Tensor:
    """`softmax(query @ key.mT / sqrt(E)) @ value`, without the scores in memory.

    Args:
        query: (heads, L, E), floats.
        key, value: (heads, S, E).
        is_causal: whether query i sees only the keys up to i.

    Returns:
        (heads, L, E).

    Raises:
        ShapeError: the shapes do not fit.
    """
    names = (("query", query), ("key", key), ("value", value))
    for name, x in names:
        handle_of(x, "flash_attention", name)
    operands = promote("flash_attention", *names)
    return run(FLASH.op(causal=bool(is_causal)), operands)[0]


def _rule(query: Aval, key: Aval, value: Aval, *, causal: bool) -> tuple[Aval, Aval]:
    if not query.dtype.is_floating:
        raise DTypeError(f"flash_attention: query must be floats, got {query.dtype}")
    fits = len(query.shape) == len(key.shape) == 3 and key.shape == value.shape
    if not fits or query.shape[::2] != key.shape[::2]:
        raise ShapeError(
            "flash_attention: query must be (heads, L, E), key and value (heads, S, E), got "
            f"{query.shape}, {key.shape} and {value.shape}"
        )
    return query, Aval(query.shape[:-1], query.dtype)


def _shares(query: Tensor, key: Tensor, lse: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    """What each query takes of each value, and the logarithm of its sum of exponentials."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if causal:
        rows = it.arange(query.shape[-2], device=query.device)
        columns = it.arange(key.shape[-2], device=query.device)
        scores = it.where(it.expand_dims(rows, axis=1) >= columns, scores, -math.inf)
    if lse is None:
        lse = it.logsumexp(scores, axis=-1)
    return it.exp(scores - it.expand_dims(lse, axis=-1)), lse


def _body(query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
    shares, lse = _shares(query, key, None, causal)
    return shares @ value, lse


def _vjp(
    g: tuple[Tensor | None, Tensor | None], query: Tensor, key: Tensor, value: Tensor,
    out: Tensor, lse: Tensor, causal: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Two operations: one goes over keys for each query, the other over queries for each key."""
    by_out = it.zeros_like(out) if g[0] is None else g[0]
    level = it.sum(by_out * out, axis=-1)
    if g[1] is not None:
        level = level - g[1]
    operands = [x._handle for x in (query, key, value, by_out, lse, level)]
    (by_query,) = run(FLASH_QUERIES.op(causal=causal), operands)
    by_key, by_value = run(FLASH_KEYS.op(causal=causal), operands)
    return by_query, by_key, by_value


def _flow(
    query: Tensor, key: Tensor, value: Tensor, g: Tensor, lse: Tensor, level: Tensor, causal: bool
) -> tuple[Tensor, Tensor]:
    shares, _ = _shares(query, key, lse, causal)
    by_scores = shares * (g @ value.mT - it.expand_dims(level, axis=-1))
    return by_scores / math.sqrt(query.shape[-1]), shares


def _queries_body(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    lse: Tensor,
    level: Tensor,
    *,
    causal: bool,
) -> Tensor:
    return _flow(query, key, value, g, lse, level, causal)[0] @ key


def _keys_body(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    lse: Tensor,
    level: Tensor,
    *,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    flow, shares = _flow(query, key, value, g, lse, level, causal)
    return flow.mT @ query, shares.mT @ g


_PARTS = ("query", "key", "value", "g", "lse", "level")
_TRAITS = Traits("opaque", precision="low", bound="compute")
FLASH_QUERIES = Operation(
    "flash_attention_queries", tensors=_PARTS, statics=("causal",), traits=_TRAITS,
    rule=lambda query, *_, causal: query, body=_queries_body,
)  # fmt: skip
FLASH_KEYS = Operation(
    "flash_attention_keys", tensors=_PARTS, statics=("causal",), outputs=("key", "value"),
    rule=lambda query, key, value, *_, causal: (key, value), traits=_TRAITS, body=_keys_body,
)  # fmt: skip
FLASH = Operation(
    "flash_attention", tensors=("query", "key", "value"), statics=("causal",),
    outputs=("out", "lse"), rule=_rule, traits=_TRAITS, body=_body,
    vjp={("query", "key", "value"): _vjp}, public=flash_attention,
)  # fmt: skip

for _operation in (FLASH, FLASH_QUERIES, FLASH_KEYS):
    for _language in WRITERS:
        register_kernel(_operation, _language, kernel_of(_language))

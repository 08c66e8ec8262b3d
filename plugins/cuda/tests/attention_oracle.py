"""What attention and its gradient are in float64, and how kernels on a played GPU are held beside
it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from host_gpu import HostBackend

import ingle.tensor as it
from ingle.tensor.ops.neural.attention import attention_training
from ingle.tensor.ops.neural.attention_dropout import (
    attention_dropout,
    attention_dropout_gradient,
    factor,
    threshold,
)
from ingle.tensor.ops.neural.attention_gradients import attention_gradient
from ingle.tensor.ops.random.bits import reference_bits
from ingle.testkit.bits import same_bits

TOLERANCE = {"float32": 3e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def exact(
    g: Any, query: Any, key: Any, value: Any, mask: Any = None, causal: bool = False,
    scale: float = 1.0, dropout: tuple[float, tuple[int, int]] | None = None,
    rounded: Any = None,
) -> list[np.ndarray]:  # fmt: skip
    """Attention, the logarithms and the three gradients, by their formulas in float64.

    Args:
        dropout: with which probability keys are left out, and the place of the random words.
        rounded: the result as it was stored, from which gradients are found.
    """
    scores = np.einsum("...le,...se->...ls", query, key) * scale
    seen = np.ones(scores.shape, np.bool_)
    if mask is not None and mask.dtype == np.bool_:
        seen &= mask
    elif mask is not None:
        scores = scores + mask
    if causal:
        seen &= np.tri(*scores.shape[-2:]) > 0
    top = np.max(np.where(seen, scores, -np.inf), -1, keepdims=True)
    e = np.where(seen, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = np.sum(e, -1, keepdims=True)
    shares = e / np.where(total == 0, 1, total)
    weights: Any = 1.0
    if dropout is not None:
        p, place = dropout
        weights = (reference_bits(shares.shape, place) >= threshold(p)) * factor(p)
    out = np.einsum("...ls,...sv->...lv", shares * weights, value)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    pull = np.einsum("...lv,...sv->...ls", g, value) * weights
    level = np.sum(g * (out if rounded is None else rounded), -1, keepdims=True)
    flow = shares * (pull - level) * scale
    found = [
        np.einsum("...ls,...se->...le", flow, key), np.einsum("...ls,...le->...se", flow, query),
        np.einsum("...ls,...lv->...sv", shares * weights, g),
    ]  # fmt: skip
    for n, like in ((1, key), (2, value)):
        axes = tuple(i for i, size in enumerate(like.shape) if found[n].shape[i] != size)
        found[n] = np.sum(found[n], axes, keepdims=True)
    return [out, lse, *found]


def check(
    backend: HostBackend, device: str, arrays: Sequence[Any], dtype: str, launches: int = 3,
    **options: Any,
) -> list[np.ndarray]:  # fmt: skip
    """Attention and its gradient on a played GPU, beside float64 on values of the dtype.

    Args:
        arrays: the gradient of the result, queries, keys, values, and perhaps a mask.
        launches: of attention, and of the gradient, which asks for the logarithms anew.
        options: of `exact`.

    Returns:
        The result, the logarithms and the three gradients.
    """
    given = [a if a.dtype == np.bool_ else it.asarray(a, dtype=dtype).numpy() for a in arrays]
    wide = [a if a.dtype == np.bool_ else a.astype(np.float64) for a in given]
    tensors = [it.asarray(a, device=device) for a in given]
    plain: dict[str, Any] = {"is_causal": options.get("causal", False)}
    plain["scale"] = options.get("scale", 1.0)
    counts, dropout = backend.gpu.counts, options.get("dropout")
    before = counts["launched"]
    if dropout is None:
        found = [*attention_training(*tensors[1:], **plain)]
        found += attention_gradient(*tensors, **plain)
    else:
        plain |= dict(zip(("p", "place"), dropout, strict=True))
        found = [*attention_dropout(*tensors[1:], **plain)]
        found += attention_dropout_gradient(*tensors, **plain)
    made = [x.numpy() for x in found]
    assert counts["launched"] - before == launches
    if dropout is None:
        alone = it.scaled_dot_product_attention(*tensors[1:], **plain).numpy()
        assert same_bits(alone, made[0])
    wanted = exact(*wide, **options, rounded=made[0].astype(np.float64))
    for result, right in zip(made, wanted, strict=True):
        assert result.shape == right.shape
        size = np.max(np.abs(right[np.isfinite(right)]), initial=1.0)
        np.testing.assert_allclose(
            result.astype(np.float64), right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * size
        )
    return made


def drawn(seed: int) -> tuple[list[np.ndarray], str, dict[str, Any]]:
    """Operands, a dtype and options of any kind."""
    rng = np.random.default_rng(seed)
    lead = tuple(int(n) for n in rng.integers(1, 3, size=rng.integers(0, 2)))
    heads = (*lead, 2, int(rng.integers(1, 4)))
    queries, keys = (int(n) for n in rng.choice([1, 5, 17, 64, 70, 130], size=2))
    features, columns = (int(n) for n in rng.choice([1, 5, 16, 32, 40, 72], size=2))
    sizes = [
        (*heads, queries, columns), (*heads, queries, features),
        (*heads[:-1], 1, keys, features), (*heads[:-1], 1, keys, columns),
    ]  # fmt: skip
    arrays = [rng.standard_normal(size) for size in sizes]
    kind = seed % 4
    if kind == 1:
        arrays.append(rng.random((queries, keys)) < 0.7)
    elif kind == 2:
        arrays.append(rng.standard_normal((*heads, 1, keys)))
    elif kind == 3:  # a key that is padding
        arrays.append(np.arange(keys) < max(keys // 3, 1))
    options = {"causal": seed % 5 == 0, "scale": 0.3 if seed % 2 else features**-0.5}
    return arrays, ("float32", "bfloat16", "float16")[seed % 3], options

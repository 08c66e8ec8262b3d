"""Gradients against central finite differences of the reference, along random directions.

For a real loss L = Re Σ conj(c)·f(x), gradients follow the convention of PyTorch and JAX's
transpose: dL = Re Σ conj(g)·dx, for complex inputs too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ingle.tensor import Gradients, Tensor, asarray
from ingle.tensor.dtypes import DType
from ingle.tensor.errors import GradientError

from .cases import Case
from .oracle import Oracle
from .tolerance import epsilon

Loss = Callable[[Sequence[np.ndarray]], float]


def direction(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """Random numbers of an array's shape, complex if it is."""
    values = rng.uniform(-1, 1, like.shape)
    if like.dtype.kind == "c":
        return np.asarray(values + 1j * rng.uniform(-1, 1, like.shape))
    return np.asarray(values)


def inner(a: np.ndarray, b: np.ndarray) -> float:
    """Re Σ conj(a)·b."""
    return float(np.sum(np.real(np.conj(a) * b)))


def backward_all(
    results: Sequence[Tensor],
    cotangents: Sequence[np.ndarray | None],
    *,
    create_graph: bool = False,
) -> Gradients:
    """The summed gradients of several results; results that record nothing are constants."""
    total = Gradients({})
    for result, c in zip(results, cotangents, strict=True):
        if c is None or result.backend.level == 0:
            continue
        given = asarray(c.astype(result.dtype.dtype), device=result.device)
        total = total + result.backward(given, create_graph=create_graph)
    return total


def gradient_arrays(grads: Gradients, inputs: Sequence[Tensor | None]) -> list[np.ndarray | None]:
    """The gradient by each tracked input in double precision; zeros where there is none."""
    found: list[np.ndarray | None] = []
    for x in inputs:
        if x is None:
            found.append(None)
            continue
        g = grads.get(x)
        wide = np.complex128 if x.dtype.is_complex else np.float64
        if g is None:
            found.append(np.zeros(x.shape, wide))
            continue
        if g.dtype is not x.dtype or g.shape != x.shape:
            raise GradientError(
                f"the gradient of {x.dtype}{list(x.shape)} is {g.dtype}{list(g.shape)}"
            )
        found.append(g.numpy().astype(wide))
    return found


def slope(
    loss: Loss, at: Sequence[np.ndarray], which: int, along: np.ndarray, step: float
) -> float:
    """The derivative of a loss by one of its arrays along a direction, by central differences."""
    values = []
    for sign in (1.0, -1.0):
        moved = list(at)
        moved[which] = moved[which] + sign * step * along
        values.append(loss(moved))
    return (values[0] - values[1]) / (2 * step)


def check_gradient(
    case: Case,
    gradients: Sequence[np.ndarray | None],
    cotangents: Sequence[np.ndarray | None],
    result_dtypes: Sequence[DType],
    rng: np.random.Generator,
) -> None:
    """Compares each input's gradient with finite differences of the reference."""
    oracle = Oracle(case)
    outputs = oracle(oracle.arrays)

    def loss(arrays: Sequence[np.ndarray]) -> float:
        pairs = zip(cotangents, oracle(arrays), strict=True)
        return sum(inner(c, out) for c, out in pairs if c is not None)

    coarse = max(
        [float(np.finfo(o.dtype).eps) for o in outputs if o.dtype.kind in "fc"] + [2.0**-52]
    )
    step = coarse ** (1 / 3)
    precision = max(epsilon(d) for d in (case.dtype, *result_dtypes) if d.is_inexact)
    tolerance = max(1e-6, 30 * step**2, 32 * precision) * case.sample.condition
    for which, g in enumerate(gradients):
        if g is None or not g.size:
            continue
        along = direction(rng, g)
        expected = slope(loss, oracle.arrays, which, along, step)
        got = inner(g, along)
        # A sum of signed terms: judged by their size, as a cancelling sum would be. The loss's
        # own size bounds what its rounding adds to a difference quotient.
        scale = (
            abs(expected) + float(np.sum(np.abs(g) * np.abs(along))) + _size(cotangents, outputs)
        )
        assert abs(got - expected) <= tolerance * scale, (
            f"the gradient by input {which} of shape {g.shape} along a random direction is "
            f"{got:.8g}, finite differences say {expected:.8g}"
        )


def _size(cotangents: Sequence[np.ndarray | None], outputs: Sequence[np.ndarray]) -> float:
    return sum(
        float(np.sum(np.abs(c) * np.abs(np.where(np.isfinite(o), o, 0))))
        for c, o in zip(cotangents, outputs, strict=True)
        if c is not None
    )

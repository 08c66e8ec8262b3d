"""Affine maps of the last axis."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Scalar
from ...dispatch import TensorLike, handle_of, promote, run, wrap
from ...dtypes import DType
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import INEXACT, conj
from ..linear_algebra.products import matmul
from ..movement.shapes import permute_dims, reshape
from ..reductions.basic import sum

if TYPE_CHECKING:
    from ...tensor import Tensor


def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """`x @ weight.T + bias` over the last axis, for any number of leading axes.

    Args:
        x: (..., in).
        weight: (out, in).
        bias: (out,).

    Returns:
        (..., out), in the promoted dtype.

    Raises:
        ShapeError: the sizes do not fit.

    >>> import ingle.tensor as it
    >>> it.linear(it.ones((2, 3)), it.ones((1, 3)), it.asarray([0.5])).tolist()
    [[3.5], [3.5]]
    """
    given = ("x", x, None), ("weight", weight, None), ("bias", bias, 0.0)
    return run(LINEAR, promote_present("linear", *given))[0]


def _rule(x: Aval, weight: Aval, bias: Aval) -> Aval:
    if x.dtype.kind not in INEXACT:
        raise DTypeError(f"linear: x must be floats, got {x.dtype}; cast with x.astype('float32')")
    if not x.shape or len(weight.shape) != 2 or x.shape[-1] != weight.shape[1]:
        told = ""
        if x.shape and len(weight.shape) == 2:
            told = f": {x.shape[-1]} and {weight.shape[1]} differ"
            if len(x.shape) > 2 and math.prod(x.shape[1:]) == weight.shape[1]:
                told += "; flatten(x, 1) is a vector for each sample"
        raise ShapeError(
            f"linear: x must be (..., in) and weight (out, in), got {x.shape} and {weight.shape}"
            f"{told}"
        )
    if bias.shape not in ((), weight.shape[:1]):
        raise ShapeError(
            f"linear: bias must have one value for each of the {weight.shape[0]} rows of weight "
            f"{weight.shape}, got shape {bias.shape}"
        )
    return Aval((*x.shape[:-1], weight.shape[0]), x.dtype)


def _flat(x: Tensor) -> Tensor:
    """All leading axes as one: a single large product is faster than many small ones."""
    return reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _body(x: Tensor, weight: Tensor, bias: Tensor | float) -> Tensor:
    out = matmul(_flat(x), permute_dims(weight, (1, 0)))
    if not isinstance(bias, float):
        out = out + bias
    return reshape(out, (*x.shape[:-1], weight.shape[0]))


def _by_x(g: Tensor, weight: Tensor, x_aval: Aval) -> Tensor:
    return reshape(matmul(_flat(g), conj(weight)), x_aval.shape)


def _by_weight(g: Tensor, x: Tensor) -> Tensor:
    return matmul(permute_dims(_flat(g), (1, 0)), conj(_flat(x)))


def _by_bias(g: Tensor) -> Tensor:
    return sum(_flat(g), axis=0)


def _linear_samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    for shape in ((17, 8), (8,), (2, 3, 8), (0, 8)):
        weight, bias = draw.array((5, 8)), draw.array((5,))
        yield Sample((draw.array(shape), weight), condition=8)
        yield Sample((draw.array(shape), weight, bias), condition=8)


def _linear_reference(x: Any, weight: Any, bias: Any = 0.0) -> Any:
    return np.einsum("...i,oi->...o", x, weight) + bias


LINEAR = Operation(
    "linear",
    tensors=("x", "weight", "bias"),
    rule=_rule,
    traits=Traits("contraction", precision="low", bound="compute"),
    vjp={"x": _by_x, "weight": _by_weight, "bias": _by_bias},
    body=_body,
    public=linear,
    samples=_linear_samples,
    reference=_linear_reference,
).op()


def promote_present(
    name: str, *operands: tuple[str, TensorLike | None, float | None]
) -> list[Handle | Scalar]:
    """Tensors promoted to one dtype; for each that is None a number that changes nothing.

    So an operation always has the same inputs: a missing bias is the weak scalar 0, a missing
    weight 1.

    Args:
        name: of the operation, for messages.
        operands: name, tensor, and the number that stands for it, of each argument; None for
            one that has to be given.
    """
    # A cell is read once: each reading is a value of its own to gradients.
    found: list[Handle | float] = []
    dtype: DType | None = None
    alike = True
    for argument, x, number in operands:
        if x is None and number is not None:
            found.append(number)
            continue
        handle = handle_of(x, name, argument)
        found.append(handle)
        if dtype is None:
            dtype = handle.dtype
        elif handle.dtype is not dtype:
            alike = False
    assert dtype is not None, "one of them has to be given"
    handles: list[Any] = found
    if not alike:
        present = [
            (argument, wrap(h))
            for (argument, _, _), h in zip(operands, found, strict=True)
            if isinstance(h, Handle)
        ]
        made = iter(promote(name, *present))
        handles = [next(made) if isinstance(h, Handle) else h for h in found]
        dtype = next(h.dtype for h in handles if not isinstance(h, float))
    for place, h in enumerate(handles):  # a comprehension would be one more call
        if type(h) is float:
            handles[place] = Scalar(h, dtype)
    return handles

"""exp, and uniform floats without their ends, from IEEE arithmetic alone.

Libraries' exponentials differ in the last bit, as their logarithms do; what is made of these here
is equal on every backend.
"""

from __future__ import annotations

import math

from .. import ops
from ..contract import Shape
from ..device import Device
from ..dispatch import TensorLike, as_number, handle_of, wrap
from ..dtypes import DType, as_dtype, default_float, float32, float64, int32, int64
from ..errors import ArgumentError, DTypeError, ShapeError
from ..ops._checks_at_run import is_unread, required
from ..ops._rules import as_shape, broadcast_shapes
from ..tensor import Tensor
from .basic import Shape as ShapeLike
from .basic import uniform
from .generator import Generator

Parameter = float | TensorLike
"""A parameter of a distribution: a number, or a tensor with one for each element."""


def exp(x: Tensor) -> Tensor:
    """The exponential of float32 or float64 values within 2 ulp; 0 below the normal numbers.

    x = n * log 2 + r with |r| below 0.35, and exp r by its Taylor series.
    """
    wide = x.dtype is float64
    integer, bits, bias = (int64, 52, 1023) if wide else (int32, 23, 127)
    high, low = (6.93147180369123816490e-01, 1.90821492927058770002e-10) if wide else _LN2_FLOAT32
    least, most = (1 - bias) * math.log(2), bias * math.log(2)
    kept = ops.clip(x, least + 1, most)
    n = ops.round(kept * (1 / math.log(2)))
    r = (kept - n * high) - n * low
    total = r * (1 / math.factorial(_TERMS[wide])) + 1 / math.factorial(_TERMS[wide] - 1)
    for k in range(_TERMS[wide] - 2, -1, -1):
        total = total * r + 1 / math.factorial(k)
    scale = ops.bitcast((n.astype(integer) + bias) << bits, x.dtype)
    out = ops.where(x < least + 1, 0, total * scale)
    return ops.where(x > most, float("inf"), out)


_LN2_FLOAT32 = (0.693359375, -2.12194440e-4)
_TERMS = {True: 13, False: 7}


def open_uniform(
    shape: Shape, dtype: DType, device: Device | str | None, generator: Generator | None
) -> Tensor:
    """Uniform floats inside of (0, 1): where 0 comes, half the least step is taken instead."""
    return inside(uniform(shape, dtype=dtype, device=device, generator=generator))


def inside(u: Tensor) -> Tensor:
    """Uniform floats with half the least step in place of 0."""
    return ops.where(u == 0, 2.0**-54 if u.dtype is float64 else 2.0**-25, u)


def float_dtype(name: str, dtype: object) -> DType:
    """The float dtype of a result: the default one if not given."""
    to = default_float() if dtype is None else as_dtype(dtype)
    if not to.is_floating:
        raise DTypeError(f"{name}: dtype must be a float dtype, got {to}")
    return to


def wide_dtype(dtype: DType) -> DType:
    """What a distribution of a dtype is computed in."""
    return float64 if dtype is float64 else float32


def parameters(
    name: str,
    shape: ShapeLike | None,
    dtype: DType,
    device: Device | str | None,
    *given: tuple[str, Parameter],
) -> tuple[Shape, list[Tensor]]:
    """The shape to draw, and the parameters as positive tensors of a dtype that broadcast to it."""
    found = []
    for argument, value in given:
        value = as_number(value)
        message = f"{name}: {argument} must be positive and finite"
        if isinstance(value, (bool, int, float)):
            if not 0 < value < math.inf:
                raise ArgumentError(f"{message}, got {value}")
            tensor = ops.full((), float(value), dtype=dtype, device=device)
        else:
            tensor = ops.astype(wrap(handle_of(value, name, argument)).detach(), dtype)
            good = ops.all((tensor > 0) & (tensor < math.inf))
            if is_unread(good._handle):
                tensor = required(tensor, good, message)
            elif not bool(good):
                raise ArgumentError(f"{message}, got {tensor.tolist()}")
        found.append(tensor)
    common = broadcast_shapes(name, *(p.shape for p in found))
    size = common if shape is None else as_shape(shape, name)
    if broadcast_shapes(name, common, size) != size:
        raise ShapeError(f"{name}: parameters of shape {common} do not broadcast to {size}")
    return size, [ops.broadcast_to(p, size) for p in found]

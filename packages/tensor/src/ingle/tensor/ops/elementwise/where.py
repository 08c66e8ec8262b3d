"""A choice for each element: where and masked_fill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Aval, Handle, Scalar
from ...dispatch import Number, Operand, TensorLike, as_number, cast_handle, handle_of, promote, run
from ...dtypes import default_complex, default_float, default_int, promote_types, scalar_dtype
from ...errors import DTypeError
from ...operation import Laws, Operation, Traits
from ...sample import Draw, Sample
from .._families import PLAIN
from .._guarding import guarded
from .._rules import broadcast_shapes

if TYPE_CHECKING:
    from ...dtypes import DType
    from ...tensor import Tensor


def where(condition: TensorLike, x1: Operand, x2: Operand, /) -> Tensor:
    """`x1` where the condition is true, `x2` elsewhere; the three broadcast.

    The side that was not chosen gets a gradient of 0 there.

    Args:
        condition: a bool tensor.
        x1, x2: tensors or numbers, promoted to one dtype.

    Raises:
        DTypeError: the condition is not bool.

    >>> import ingle.tensor as it
    >>> it.where(it.asarray([True, False]), it.asarray([1, 2]), 0).tolist()
    [1, 0]
    """
    mask = _mask("where", "condition", condition)
    a: Handle | Scalar
    b: Handle | Scalar
    x1, x2 = as_number(x1), as_number(x2)
    if isinstance(x1, (bool, int, float, complex)) and isinstance(x2, (bool, int, float, complex)):
        dtype = _dtype_of_numbers(x1, x2)
        for argument, x in (("x1", x1), ("x2", x2)):
            scalar_dtype(x, dtype, f"where: {argument}")
        a, b = Scalar(x1, dtype), Scalar(x2, dtype)
    else:
        a, b = promote("where", ("x1", x1), ("x2", x2))
    return run(_WHERE, (mask, a, b))[0]


def _rule(condition: Aval, x1: Aval, x2: Aval) -> Aval:
    names = ("condition", "x1", "x2")
    shapes = condition.shape, x1.shape, x2.shape
    return Aval(broadcast_shapes("where", *shapes, arguments=names), x1.dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    for c, a, b in (
        ((3,), (3,), (3,)), ((2, 17), (17,), (2, 1)), ((), (3,), ()), ((5, 1), (1, 0), (5, 0)),
        ((3, 1, 2), (), (5, 1)),
    ):  # fmt: skip
        yield Sample((draw.array(c, dtype="bool"), draw.array(a), draw.array(b)))
    yield Sample((draw.array((8,), dtype="bool"), draw.array((8,)), 1))


_WHERE = Operation(
    "where",
    tensors=("condition", "x1", "x2"),
    rule=_rule,
    traits=Traits("elementwise", family="where", storage=True, laws=Laws(idempotent=True), **PLAIN),
    vjp={
        "x1": lambda g, condition: where(condition, g, 0),
        "x2": lambda g, condition: where(condition, 0, g),
    },
    public=where,
    samples=_samples,
    reference=np.where,
).op()


@guarded
def masked_fill(x: TensorLike, /, mask: TensorLike, value: Operand) -> Tensor:
    """`x` with one number wherever the mask is true, in the dtype of `x`.

    Args:
        x: a tensor.
        mask: a bool tensor that broadcasts with `x`.
        value: the number, or a tensor of one that broadcasts; it has to fit the dtype of `x`.

    Raises:
        DTypeError: `value` is of a kind that the dtype of `x` does not hold.

    >>> import ingle.tensor as it
    >>> it.masked_fill(it.asarray([1.0, 2.0]), it.asarray([False, True]), 0).tolist()
    [1.0, 0.0]
    """
    handle = handle_of(x, "masked_fill")
    mask_handle = _mask("masked_fill", "mask", mask)
    fill: Handle | Scalar
    number = as_number(value)
    if isinstance(number, (bool, int, float, complex)):
        fill = weak_scalar("masked_fill", "value", number, handle.dtype)
    else:
        fill = handle_of(value, "masked_fill", "value")
        if promote_types(fill.dtype, handle.dtype).kind != handle.dtype.kind:
            raise DTypeError(
                f"masked_fill: value of dtype {fill.dtype} does not fit the dtype {handle.dtype} "
                "of x; cast x first with x.astype(...)"
            )
        fill = cast_handle(fill, handle.dtype)
    return run(_WHERE, (mask_handle, fill, handle))[0]


def weak_scalar(name: str, argument: str, value: object, dtype: DType) -> Scalar:
    """A number that takes a tensor's dtype; raises `DTypeError` where that cannot hold it."""
    value = as_number(value)
    if not isinstance(value, (bool, int, float, complex)):
        raise DTypeError(f"{name}: {argument} must be a number, got {type(value).__name__}")
    if dtype.kind == "bool" and isinstance(value, int) and value in (0, 1):
        return Scalar(bool(value), dtype)
    if scalar_dtype(value, dtype, f"{name}: {argument}") is not dtype:
        raise DTypeError(
            f"{name}: {argument}={value!r} does not fit the dtype {dtype} of x; "
            "cast x first with x.astype(...)"
        )
    return Scalar(value, dtype)


def filled_like(name: str, argument: str, value: object, x: Handle) -> Handle:
    """A tensor's handle, or for a number one of a 0-d tensor with the dtype and device of `x`."""
    from ..creation.filled import full

    number = as_number(value)
    if not isinstance(number, (bool, int, float, complex)):
        return handle_of(value, name, argument)
    weak_scalar(name, argument, number, x.dtype)
    return full((), number, dtype=x.dtype, device=x.backend.device)._handle


def _mask(name: str, argument: str, mask: object) -> Handle:
    handle = handle_of(mask, name, argument)
    if handle.dtype.kind != "bool":
        raise DTypeError(
            f"{name}: {argument} must be bool, got {handle.dtype}; "
            f"compare first, for example {argument} != 0"
        )
    return handle


def _dtype_of_numbers(*numbers: Number) -> DType:
    if any(isinstance(v, complex) for v in numbers):
        return default_complex()
    if any(isinstance(v, float) for v in numbers):
        return default_float()
    from ...dtypes import bool_

    return bool_ if all(isinstance(v, bool) for v in numbers) else default_int()

"""Logic on truth values, and on the bits of integers; none of it has a gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...contract import Handle
from ...dispatch import (
    Operand,
    TensorLike,
    as_number,
    call1,
    call2,
    cast_handle,
    handle_of,
    promote,
    refuse_storage,
    run1,
    run2,
)
from ...dtypes import bool_
from ...operation import Laws, Op
from .._families import PLAIN, PREDICATE, binary, unary
from .._rules import INTEGRAL

if TYPE_CHECKING:
    from ...tensor import Tensor


def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that are set in both of each pair, of integers or bools.

    Args:
        x1, x2: integers or bools of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.bitwise_and(it.asarray([12, 7]), 10).tolist()
    [8, 2]
    """
    return call2(_BITWISE_AND, x1, x2)


_BITWISE_AND = binary(
    "bitwise_and",
    bitwise_and,
    vjp={},
    kinds=INTEGRAL,
    reference=np.bitwise_and,
    laws=Laws(idempotent=True),
    **PLAIN,
).op()


def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether both elements of each pair are true; a number is true if it is not 0.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.logical_and(it.asarray([True, True]), it.asarray([True, False])).tolist()
    [True, False]
    """
    return _logical(_LOGICAL_AND, x1, x2)


_LOGICAL_AND = binary(
    "logical_and",
    logical_and,
    vjp={},
    kinds=("bool",),
    body=bitwise_and,
    reference=np.logical_and,
    **PREDICATE,
).op()


def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that are set in one of each pair, of integers or bools.

    Args:
        x1, x2: integers or bools of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.bitwise_or(it.asarray([12, 7]), 10).tolist()
    [14, 15]
    """
    return call2(_BITWISE_OR, x1, x2)


_BITWISE_OR = binary(
    "bitwise_or",
    bitwise_or,
    vjp={},
    kinds=INTEGRAL,
    reference=np.bitwise_or,
    laws=Laws(idempotent=True),
    **PLAIN,
).op()


def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether an element of each pair is true; a number is true if it is not 0.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.logical_or(it.asarray([True, False]), it.asarray([False, False])).tolist()
    [True, False]
    """
    return _logical(_LOGICAL_OR, x1, x2)


_LOGICAL_OR = binary(
    "logical_or",
    logical_or,
    vjp={},
    kinds=("bool",),
    body=bitwise_or,
    reference=np.logical_or,
    **PREDICATE,
).op()


def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that are set in exactly one of each pair, of integers or bools.

    Args:
        x1, x2: integers or bools of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.bitwise_xor(it.asarray([12, 7]), 10).tolist()
    [6, 13]
    """
    return call2(_BITWISE_XOR, x1, x2)


_BITWISE_XOR = binary(
    "bitwise_xor", bitwise_xor, vjp={}, kinds=INTEGRAL, reference=np.bitwise_xor, **PLAIN
).op()


def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether exactly one element of each pair is true; a number is true if it is not 0.

    Args:
        x1, x2: tensors of shapes that broadcast; one of them may be a number.

    >>> import ingle.tensor as it
    >>> it.logical_xor(it.asarray([True, True]), it.asarray([True, False])).tolist()
    [False, True]
    """
    return _logical(_LOGICAL_XOR, x1, x2)


_LOGICAL_XOR = binary(
    "logical_xor",
    logical_xor,
    vjp={},
    kinds=("bool",),
    body=bitwise_xor,
    reference=np.logical_xor,
    **PREDICATE,
).op()


def bitwise_invert(x: TensorLike, /) -> Tensor:
    """Every bit of integers the other way round; `not` for bools.

    >>> import ingle.tensor as it
    >>> it.bitwise_invert(it.asarray([0, 5])).tolist()
    [-1, -6]
    """
    return call1(_BITWISE_INVERT, x)


_BITWISE_INVERT = unary(
    "bitwise_invert",
    bitwise_invert,
    zero_gradient=True,
    kinds=INTEGRAL,
    reference=np.bitwise_invert,
    **PLAIN,
).op()


def logical_not(x: TensorLike, /) -> Tensor:
    """Whether each element is false; a number is false if it is 0.

    >>> import ingle.tensor as it
    >>> it.logical_not(it.asarray([0, 3])).tolist()
    [True, False]
    """
    return run1(_LOGICAL_NOT, _truth(x, "logical_not", "x"))


_LOGICAL_NOT = unary(
    "logical_not",
    logical_not,
    zero_gradient=True,
    kinds=("bool",),
    body=bitwise_invert,
    reference=np.logical_not,
    **PREDICATE,
).op()


def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits of `x1` moved up by `x2` places, which must not be negative.

    >>> import ingle.tensor as it
    >>> it.bitwise_left_shift(it.asarray([1, 3]), 2).tolist()
    [4, 12]
    """
    return call2(_LEFT_SHIFT, x1, x2)


_LEFT_SHIFT = binary(
    "bitwise_left_shift",
    bitwise_left_shift,
    vjp={},
    kinds=("unsigned", "signed"),
    low2=0.0,
    high2=5.0,
    reference=np.bitwise_left_shift,
).op()


def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits of `x1` moved down by `x2` places, keeping the sign; `x2` must not be negative.

    >>> import ingle.tensor as it
    >>> it.bitwise_right_shift(it.asarray([12, -8]), 2).tolist()
    [3, -2]
    """
    return call2(_RIGHT_SHIFT, x1, x2)


_RIGHT_SHIFT = binary(
    "bitwise_right_shift",
    bitwise_right_shift,
    vjp={},
    kinds=("unsigned", "signed"),
    low=-99.0,
    high=99.0,
    low2=0.0,
    high2=5.0,
    reference=np.bitwise_right_shift,
).op()


def _logical(op: Op, x1: Operand, x2: Operand) -> Tensor:
    name = op.operation.name
    x1, x2 = as_number(x1), as_number(x2)
    a, b = (bool(x) if isinstance(x, (bool, int, float, complex)) else x for x in (x1, x2))
    if isinstance(a, bool) or isinstance(b, bool):
        return run2(op, *promote(name, ("x1", a), ("x2", b), dtype=bool_))
    return run2(op, _truth(a, name, "x1"), _truth(b, name, "x2"))


def _truth(x: TensorLike, name: str, argument: str) -> Handle:
    handle = handle_of(x, name, argument)
    refuse_storage(name, argument, handle.dtype)
    return cast_handle(handle, bool_)

"""depend: a value that is there only once another one is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle
from ...dispatch import TensorLike, handle_of, run1, run2
from ...operation import OPERATIONS, Operation, Traits
from ...sample import Draw, Sample

if TYPE_CHECKING:
    from ...tensor import Tensor


def depend(x: TensorLike, after: TensorLike, /) -> Tensor:
    """The same value as `x`, for what shall be computed from it only after `after` is there.

    Recorded operations are ordered by what they need, and asked for twice they are computed once.
    Where something is computed again in order not to keep it meanwhile, it is computed of
    `depend(x, after)`: that is another value than `x`, so that the two are not made one, and they
    stand in the order that saves the memory. Nothing is copied.

    Args:
        x: of any shape and dtype.
        after: of any shape and dtype; its gradient is zero.

    >>> import ingle.tensor as it
    >>> x = it.asarray([1.0, 2.0])
    >>> it.exp(it.depend(x, it.sum(it.exp(x)))).shape
    (2,)
    """
    return ordered_after(handle_of(x, "depend", "x"), handle_of(after, "depend", "after"))


def _rule(x: Aval, after: Aval) -> Aval:
    return x


def _body(x: Tensor, after: Tensor) -> Tensor:
    return x


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape, other in (((), (3,)), ((0,), ()), ((2, 17), (2, 17)), ((5,), (0, 4))):
        yield Sample((draw.array(shape), draw.array(other)), exact=True)


def _reference(x: Any, after: Any) -> Any:
    return np.asarray(x)


DEPEND = Operation(
    "depend",
    tensors=("x", "after"),
    rule=_rule,
    traits=Traits("movement", storage=True),
    vjp={"x": lambda g: g},
    body=_body,
    public=depend,
    samples=_samples,
    reference=_reference,
)


def ordered_after(x: Handle, after: Handle) -> Tensor:
    """`depend`; of an `after` on another device one element comes over, which will do."""
    here = x.backend.device
    if after.backend.device != here:
        flat = run1(OPERATIONS["reshape"].op(shape=(math.prod(after.shape),)), after)
        after = flat[:1].to_device(here)._handle
    return run2(DEPEND.op(), x, after)

"""stop_gradient: a value that counts as a constant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, call1
from ...operation import Operation, Traits
from ...sample import Draw, Sample

if TYPE_CHECKING:
    from ...tensor import Tensor


def stop_gradient(x: TensorLike, /) -> Tensor:
    """The same value, which counts as a constant when what is computed from it is differentiated.

    `x.detach()` does the same. This is the form of it that stays in a program that is written
    down, such as the body of a loop, and is differentiated later.

    >>> import ingle.tensor as it
    >>> x = it.asarray(3.0).require_grad()
    >>> (x * it.stop_gradient(x)).backward()[x].item()
    3.0
    """
    return call1(STOP_GRADIENT.op(), x)


def _rule(x: Aval) -> Aval:
    return x


def _body(x: Tensor) -> Tensor:
    return x


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((), (0,), (2, 17)):
        yield Sample((draw.array(shape),), gradient=False, exact=True)


STOP_GRADIENT = Operation(
    "stop_gradient",
    tensors=("x",),
    rule=_rule,
    traits=Traits("elementwise", storage=True),
    vjp={},
    body=_body,
    public=stop_gradient,
    samples=_samples,
    reference=np.asarray,
)

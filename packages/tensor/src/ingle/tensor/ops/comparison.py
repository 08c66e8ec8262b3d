"""Comparisons of pairs of elements; the result is bool and has no gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dispatch import Operand, call2
from ..dtypes import bool_
from ._families import binary
from ._rules import NUMERIC

if TYPE_CHECKING:
    from ..tensor import Tensor

_ANY = ("bool", *NUMERIC)


def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether the elements of each pair are equal; NaN equals nothing.

    >>> import ingle.tensor as it
    >>> it.equal(it.asarray([1, 2]), 2).tolist()
    [False, True]
    """
    return call2(_EQUAL, x1, x2)


_EQUAL = binary("equal", equal, kinds=_ANY, result=bool_, reference=np.equal).op()

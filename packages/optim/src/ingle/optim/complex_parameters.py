"""Complex parameters: updates compute with both parts of a number as two real ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import DTypeError

if TYPE_CHECKING:
    from .slots import Slot


def as_reals(x: Tensor) -> Tensor:
    """Real and imaginary parts along a last axis of two.

    >>> import ingle.tensor as it
    >>> from ingle.optim.complex_parameters import as_reals
    >>> as_reals(it.asarray([1.0 + 2.0j])).tolist()
    [[1.0, 2.0]]
    """
    return it.stack([it.real(x), it.imag(x)], axis=-1)


def from_reals(x: Tensor) -> Tensor:
    """The complex numbers of which `as_reals` makes this.

    >>> import ingle.tensor as it
    >>> from ingle.optim.complex_parameters import from_reals
    >>> from_reals(it.asarray([[1.0, 2.0]])).tolist()
    [(1+2j)]
    """
    return x[..., 0] + x[..., 1] * 1j


def refuse_complex(name: str, slots: Sequence[Slot]) -> None:
    """Raises `DTypeError` for the first complex parameter: what knows matrices would take the axis
    of both parts for one of the matrix."""
    for slot in slots:
        if slot.parameter.dtype.is_complex:
            raise DTypeError(
                f"{name}: parameters must be real, {slot.name!r} is {slot.parameter.dtype}; give "
                "complex ones to another optimizer, such as AdamW"
            )

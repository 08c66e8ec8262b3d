"""How often each place occurs among indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import handle_of, run1
from ...dtypes import int64
from ...errors import DTypeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import as_size
from ..creation.filled import ones, zeros
from .scattering import scatter_add

if TYPE_CHECKING:
    from ...tensor import Tensor


def occurrences(places: Tensor, /, *, size: int) -> Tensor:
    """How often each number below a size occurs, in int64.

    Args:
        places: integers of any shape from 0 below the size.
        size: of the result.

    Raises:
        DTypeError: `places` are no integers.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.indexing.occurrences import occurrences
    >>> occurrences(it.asarray([0, 2, 0]), size=4).tolist()
    [2, 0, 1, 0]
    """
    op = OCCURRENCES.op(size=as_size(size, "occurrences", "size"))
    return run1(op, handle_of(places, "occurrences"))


def _rule(places: Aval, *, size: int) -> Aval:
    if not places.dtype.is_integer:
        raise DTypeError(f"occurrences: places must be integers, got {places.dtype}")
    return Aval((size,), int64)


def _body(places: Tensor, *, size: int) -> Tensor:
    one = ones(places.shape, dtype=int64, device=places.device)
    return scatter_add(zeros((size,), dtype=int64, device=places.device), places, one)


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.name not in ("int32", "int64"):
        return
    size = draw.size(7, least=1)
    for shape in (draw.shape((40,)), draw.shape((3, 5)), (0,), ()):
        places = draw.integers(shape, size, draw.dtype.name)
        yield Sample((places,), {"size": size}, gradient=False, exact=True)
    # More of them than go through the kernels of small ones, in a view that skips every second.
    many = draw.integers((5000, 2), 11, draw.dtype.name)[:, 0]
    yield Sample((many,), {"size": 13}, gradient=False, exact=True, label="many")


def _reference(places: Any, size: int) -> Any:
    return np.array([np.count_nonzero(places == i) for i in range(size)], np.int64)


OCCURRENCES = Operation(
    "occurrences",
    tensors=("places",),
    statics=("size",),
    rule=_rule,
    traits=Traits("opaque"),
    vjp={},
    body=_body,
    public=occurrences,
    samples=_samples,
    reference=_reference,
)

"""The distinct values of a tensor: unique_values and its kin. NaN are distinct from each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...contract import Aval
from ...dispatch import (
    Operand,
    TensorLike,
    as_number,
    handle_of,
    promote,
    refuse_storage,
    run,
    wrap,
)
from ...dtypes import DType, bool_, int64
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from ..creation.conversion import asarray
from ..creation.filled import full, zeros
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.complex import imag, real
from ..elementwise.extrema import minimum
from ..elementwise.logical import logical_not
from ..indexing.gathering import take
from ..indexing.nonzero import nonzero
from ..indexing.scattering import scatter_add, scatter_set
from ..movement.axes import expand_dims
from ..movement.joining import concat
from ..movement.shapes import broadcast_to, reshape
from ..movement.slicing import slice_axis, zeros_of
from ..reductions.basic import any as any_of
from ..scans.cumulative import cumulative_sum
from .searchsorted import searchsorted
from .sort import argsort, sort

if TYPE_CHECKING:
    from ...tensor import Tensor


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: TensorLike, /) -> UniqueAll:
    """The distinct values in ascending order, where they are, and how often.

    The results' size depends on the values. Complex numbers are ordered by their real parts, then
    by their imaginary parts.

    Args:
        x: a tensor, read in row-major order.

    Returns:
        `values`; `indices`, where each occurs first in the flattened tensor; `inverse_indices`,
        of the shape of `x`, so that `values[inverse_indices]` is `x`; `counts`, how often each
        occurs.

    >>> import ingle.tensor as it
    >>> [part.tolist() for part in it.unique_all(it.asarray([3, 1, 3]))]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    return UniqueAll(*run(_UNIQUE, (handle_of(x, "unique_all"),)))


def _rule(x: Aval) -> tuple[Aval, Aval, Aval, Aval]:
    found = Aval((-1,), int64)
    return Aval((-1,), x.dtype), found, Aval(x.shape, int64), found


def _body(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sorts, and starts a new value wherever an element differs from the one before."""
    size = math.prod(x.shape)
    flat = reshape(x, (size,))
    order = _order(flat)
    ordered = take(flat, order)
    after, before = (slice_axis(ordered, 0, i, max(size - 1, 0)) for i in (min(size, 1), 0))
    first = arange(min(size, 1), device=x.device) == 0
    new = concat([first, after != before])
    (starts,) = nonzero(new)
    group = cumulative_sum(new.astype(int64)) - 1
    inverse = scatter_set(group, order, group, axis=0)
    end = arange(size, size + 1, dtype=int64, device=x.device)
    counts = slice_axis(concat([starts, end]), 0, 1, starts.shape[0]) - starts
    return take(ordered, starts), take(order, starts), reshape(inverse, x.shape), counts


def _order(flat: Tensor) -> Tensor:
    if not flat.dtype.is_complex:
        return argsort(flat).astype(int64)
    minor = argsort(imag(flat))
    return take(minor, argsort(take(real(flat), minor))).astype(int64)


def _vjp(g: tuple[Any, ...], indices: Tensor, x_aval: Aval) -> Tensor | None:
    if g[0] is None:
        return None
    flat = zeros_of(Aval((math.prod(x_aval.shape),), x_aval.dtype), g[0])
    return reshape(scatter_add(flat, indices, g[0], axis=0), x_aval.shape)


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((17,), (3, 5), (), (0,), (2, 0), (1, 8)):
        few = draw.integers(shape, 2 if draw.dtype.kind == "bool" else 5)
        yield Sample((np.asarray(few, draw.dtype.dtype),), gradient=False, exact=True)
    if draw.dtype.is_inexact:
        make = draw.array if draw.dtype.is_complex else draw.apart
        yield Sample((make((3, 5)),))
        odd = np.asarray([2, np.nan, -np.inf, np.nan, 2, -0.0, 0.0], draw.dtype.dtype)
        yield Sample((odd,), gradient=False, exact=True)


def _reference(x: Any) -> Any:
    if x.dtype.kind != "V":
        return np.unique_all(x)
    # NumPy cannot order the NaN of bfloat16.
    found = np.unique_all(x.astype(np.float32))
    return found._replace(values=found.values.astype(x.dtype))


_UNIQUE = Operation(
    "unique_all",
    tensors=("x",),
    outputs=("values", "indices", "inverse_indices", "counts"),
    rule=_rule,
    traits=Traits("opaque", dynamic_shape=True),
    vjp={"x": _vjp},
    body=_body,
    public=unique_all,
    samples=_samples,
    reference=_reference,
).op()


@guarded
def unique_counts(x: TensorLike, /) -> UniqueCounts:
    """The distinct values in ascending order, and how often each occurs.

    >>> import ingle.tensor as it
    >>> values, counts = it.unique_counts(it.asarray([3, 1, 3]))
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    found = unique_all(_checked("unique_counts", x))
    return UniqueCounts(found.values, found.counts)


@guarded
def unique_inverse(x: TensorLike, /) -> UniqueInverse:
    """The distinct values in ascending order, and for each element of `x` which of them it is.

    >>> import ingle.tensor as it
    >>> values, inverse = it.unique_inverse(it.asarray([3, 1, 3]))
    >>> values.tolist(), inverse.tolist()
    ([1, 3], [1, 0, 1])
    """
    found = unique_all(_checked("unique_inverse", x))
    return UniqueInverse(found.values, found.inverse_indices)


@guarded
def unique_values(x: TensorLike, /) -> Tensor:
    """The distinct values in ascending order.

    >>> import ingle.tensor as it
    >>> it.unique_values(it.asarray([3, 1, 3])).tolist()
    [1, 3]
    """
    return unique_all(_checked("unique_values", x)).values


@guarded
def isin(x1: Operand, x2: Operand, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` occurs in `x2`; NaN occurs nowhere.

    Args:
        x1, x2: tensors, or one of them a number; promoted to one dtype.
        invert: whether it does not occur instead.

    Returns:
        Bools of the shape of `x1`.

    >>> import ingle.tensor as it
    >>> it.isin(it.asarray([[1, 2], [3, 4]]), it.asarray([4, 2, 9])).tolist()
    [[False, True], [False, True]]
    """
    x1, x2 = as_number(x1), as_number(x2)
    dtype = promote("isin", ("x1", x1), ("x2", x2))[0].dtype
    refuse_storage("isin", "x1", dtype)
    x, known = (_flat(v, dtype, (x1, x2)) for v in (x1, x2))
    shape = () if isinstance(x1, (bool, int, float, complex)) else handle_of(x1, "isin").shape
    if known.size <= FEW:
        found = any_of(expand_dims(x, axis=-1) == known, axis=-1)
    elif dtype.is_complex:
        # Values that are equal have one number.
        numbers = unique_inverse(concat([x, known])).inverse_indices
        table = zeros(numbers.shape, dtype=bool_, device=x.device)
        first, second = numbers[: x.size], numbers[x.size :]
        hits = broadcast_to(asarray(True, device=x.device), second.shape)
        found = take(scatter_set(table, second, hits), first)
    else:
        ordered = sort(known)
        place = minimum(searchsorted(ordered, x), known.size - 1)
        found = take(ordered, place) == x
    return reshape(logical_not(found) if invert else found, shape)


FEW = 16
"""As many elements are compared with all others one by one."""


def _flat(x: Operand, dtype: DType, among: tuple[Operand, Operand]) -> Tensor:
    """An operand in a row, on the device of the one that is a tensor."""
    if isinstance(x, (bool, int, float, complex)):
        other = next(v for v in among if not isinstance(v, (bool, int, float, complex)))
        device = handle_of(other, "isin").backend.device
        return full((1,), x, dtype=dtype, device=device)
    tensor = wrap(handle_of(x, "isin"))
    return astype(reshape(tensor, (math.prod(tensor.shape),)), dtype)


def _checked(name: str, x: TensorLike) -> Tensor:
    # Errors name the function that was called.
    return wrap(handle_of(x, name))

"""Tables of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...contract import Aval, Shape
from ...dispatch import TensorLike, handle_of, run, run2
from ...dtypes import int64
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._batching import Batched, take_batch
from .._guarding import guarded
from .._rules import as_int, normalize_axis
from ..creation.filled import zeros
from ..elementwise.cast import astype
from ..elementwise.detaching import stop_gradient
from ..elementwise.where import where
from ..indexing.gathering import take
from ..indexing.scattering import scatter_add, update_rule
from ..movement.shapes import reshape

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def embedding(indices: TensorLike, weight: TensorLike, *, padding_idx: int | None = None) -> Tensor:
    """The rows of a table at some indices.

    Args:
        indices: integers of any shape, in [0, rows).
        weight: (rows, features).
        padding_idx: a row that gets no gradient; negative ones count from the end.

    Returns:
        (*indices.shape, features).

    Raises:
        OutOfRangeError: an index points outside of the table.

    >>> import ingle.tensor as it
    >>> it.embedding(it.asarray([1, 0]), it.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    places = handle_of(indices, "embedding", "indices")
    table = handle_of(weight, "embedding", "weight")
    if padding_idx is not None and table.shape:
        number = as_int(padding_idx, "embedding", "padding_idx")
        padding_idx = normalize_axis(number, table.shape[0], "embedding", "padding_idx")
    return run2(EMBEDDING.op(padding_idx=padding_idx), places, table)


def _rule(indices: Aval, weight: Aval, *, padding_idx: int | None) -> Aval:
    if not indices.dtype.is_integer:
        raise DTypeError(
            f"embedding: indices must be integers, got {indices.dtype}; "
            "cast with indices.astype('int64')"
        )
    if len(weight.shape) != 2:
        raise ShapeError(f"embedding: weight must be (rows, features), got shape {weight.shape}")
    return Aval((*indices.shape, weight.shape[1]), weight.dtype)


def _from_the_start(indices: Tensor, rows: int) -> Tensor:
    """Numbers of rows for operations that count negative ones from the end: they are refused."""
    places = astype(indices, int64)
    return where(places < 0, rows, places)


def _body(indices: Tensor, weight: Tensor, *, padding_idx: int | None) -> Tensor:
    return take(weight, _from_the_start(indices, weight.shape[0]), axis=0)


def _vjp(g: Tensor, indices: Tensor, weight_aval: Aval, padding_idx: int | None) -> Tensor:
    if padding_idx is not None:
        keep = reshape(indices != padding_idx, (*indices.shape, 1))
        g = where(keep, g, 0)
    table = zeros(weight_aval.shape, dtype=g.dtype, device=g.device)
    return embedding_gradient(table, indices, g)


def _batch(batched: Batched, indices: Tensor, weight: Tensor, *, padding_idx: int | None) -> Tensor:
    if not batched[1]:
        return embedding(indices, weight, padding_idx=padding_idx)
    places = _from_the_start(indices, weight.shape[1])
    found = take_batch((True, batched[0]), weight, places, axis=0)
    if padding_idx is None:
        return found
    # What it is made of here has a gradient for every row.
    padding = reshape(indices == padding_idx, (*indices.shape, 1))
    return where(padding, stop_gradient(found), found)


def _samples(draw: Draw) -> Iterator[Sample]:
    shapes: tuple[Shape, ...] = ((), (3,), (2, 5), (0,))
    for shape in shapes:
        yield Sample((draw.integers(shape, 8), draw.array((8, 3))))
    yield Sample((draw.integers((17,), 2, "int32"), draw.array((2, 5))))


EMBEDDING = Operation(
    "embedding",
    tensors=("indices", "weight"),
    statics=("padding_idx",),
    rule=_rule,
    traits=Traits("movement", row_indices=(0, 1), indices_from_0="embedding"),
    vjp={"weight": _vjp},
    body=_body,
    batch=_batch,
    public=embedding,
    samples=_samples,
    reference=lambda indices, weight, **_: weight[indices],
)


def embedding_gradient(table: TensorLike, indices: TensorLike, rows: TensorLike) -> Tensor:
    """A table with rows added at some indices.

    The gradient refuses the indices that the embedding refuses, in its name: of a loss that nobody
    reads nothing but the gradient runs.
    """
    given = {"table": table, "indices": indices, "rows": rows}
    inputs = [handle_of(x, "embedding_gradient", name) for name, x in given.items()]
    return run(EMBEDDING_GRADIENT.op(), inputs)[0]


def _gradient_rule(table: Aval, indices: Aval, rows: Aval) -> Aval:
    if not indices.dtype.is_integer:
        raise DTypeError(f"embedding_gradient: indices must be integers, got {indices.dtype}")
    if len(table.shape) != 2:
        raise ShapeError(f"embedding_gradient: table must be (rows, features), got {table.shape}")
    return update_rule("embedding_gradient", table, indices, rows, axis=0)


def _gradient_body(table: Tensor, indices: Tensor, rows: Tensor) -> Tensor:
    return scatter_add(table, _from_the_start(indices, table.shape[0]), rows)


def _gradient_samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((), (3,), (2, 5), (0,)):
        yield Sample((draw.array((8, 3)), draw.integers(shape, 8), draw.array((*shape, 3))))


def _gradient_reference(table: Any, indices: Any, rows: Any) -> Any:
    out = table.copy()
    for place, row in zip(indices.reshape(-1), rows.reshape(-1, table.shape[1]), strict=True):
        out[place] = out[place] + row
    return out


EMBEDDING_GRADIENT = Operation(
    "embedding_gradient",
    tensors=("table", "indices", "rows"),
    rule=_gradient_rule,
    traits=Traits("opaque", row_indices=(1, 0), indices_from_0="embedding"),
    vjp={"table": lambda g: g, "rows": lambda g, indices: embedding(indices, g)},
    body=_gradient_body,
    public=embedding_gradient,
    samples=_gradient_samples,
    reference=_gradient_reference,
)

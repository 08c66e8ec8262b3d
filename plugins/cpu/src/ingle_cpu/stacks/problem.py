"""What the template for stacks of small matrices computes: sizes, and how operands lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op

from .abi import LANES

MOST_ROWS = 16
"""With more, LAPACK's blocks are as fast."""
FEWEST_ROWS = 4
"""Of adjugates: smaller ones are made of cofactors, be the matrix singular or not."""
MOST_NUMBERS = 1024
"""Of a matrix with its right-hand sides: eight of them stay in the cache."""
FEWEST = 2 * LANES
"""Matrices for which the kernel is worth its compilation."""
DTYPES = frozenset({"float32", "float64"})
OPERATIONS = frozenset(
    {"adjugate", "cholesky", "det", "inv", "slogdet", "solve", "solve_triangular"}
)

Strides = tuple[int, ...]


class MatrixPlaces(NamedTuple):
    """How the matrices of a stack lie, in elements.

    Attributes:
        matrix, row, column: from one to the next.
        first: where the first row and column are.
    """

    matrix: int
    row: int
    column: int
    first: int = 0

    def in_bytes(self, size: int) -> MatrixPlaces:
        """The same in bytes."""
        return MatrixPlaces(*[n * size for n in self])

    def turned(self, rows: int, columns: int) -> MatrixPlaces:
        """The same from the last row and column on."""
        first = self.first + (rows - 1) * self.row + (columns - 1) * self.column
        return MatrixPlaces(self.matrix, -self.row, -self.column, first)


class StackProblem(NamedTuple):
    """An operation on a stack of matrices.

    Attributes:
        name: of the operation.
        dtype: of its operands and results.
        matrices: how many.
        rows: of each.
        columns: of right-hand sides, 0 where there are none.
        unit: whether the diagonal counts as ones.
        a, b, out: how the matrices, the right-hand sides and the result lie.
    """

    name: str
    dtype: str
    matrices: int
    rows: int
    columns: int
    unit: bool
    a: MatrixPlaces
    b: MatrixPlaces
    out: MatrixPlaces

    @property
    def units(self) -> int:
        """How many tiles there are of as many matrices as lanes."""
        return -(-self.matrices // LANES)

    @property
    def products(self) -> int:
        """Multiplications, about."""
        return self.matrices * self.rows**2 * (self.rows + self.columns)


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Mapping[str, Strides] | None = None
) -> StackProblem | None:
    """The problem of an operation; None for what the template does not take.

    Args:
        strides: of the tensors, in elements; in C order if not given.
    """
    operation = op.operation
    if operation.name not in OPERATIONS or any(a.dtype.name not in DTYPES for a in avals):
        return None
    named = dict(zip(operation.tensors, avals, strict=True))
    lying = strides or {name: in_order(a.shape) for name, a in named.items()}
    shapes = [a.shape for a in avals]
    rows = shapes[0][-1]
    has_right = len(shapes) > 1
    lead = shapes[0][:-2]
    if has_right:
        lead = _broadcast(lead, shapes[1][:-2])
    beside = rows if operation.name in ("adjugate", "inv") else 0
    columns = shapes[1][-1] if has_right else beside
    count = math.prod(lead)
    if not 0 < rows <= MOST_ROWS or count < FEWEST or (has_right and not columns):
        return None
    if rows * (rows + columns) > MOST_NUMBERS:
        return None
    if operation.name == "adjugate" and rows < FEWEST_ROWS:
        return None
    found = [_lying(a.shape, lying[name], lead) for name, a in named.items()]
    if None in found:
        return None
    a, b = [x for x in (*found, MatrixPlaces(0, 0, 0)) if x is not None][:2]
    width = columns or rows
    out = MatrixPlaces(rows * width, width, 1)
    if op.attributes.get("upper"):
        # An upper triangle is a lower one from its last element on.
        a, b, out = a.turned(rows, rows), b.turned(rows, columns), out.turned(rows, columns)
    unit = bool(op.attributes.get("unitriangular"))
    return StackProblem(operation.name, avals[0].dtype.name, count, rows, columns, unit, a, b, out)


def in_order(shape: tuple[int, ...]) -> Strides:
    """Strides in C order."""
    return tuple([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])


def _broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    ndim = max(len(x), len(y))
    pairs = zip((1,) * (ndim - len(x)) + x, (1,) * (ndim - len(y)) + y, strict=True)
    return tuple([n if m == 1 else m for m, n in pairs])


def _lying(shape: tuple[int, ...], strides: Strides, lead: tuple[int, ...]) -> MatrixPlaces | None:
    """How a stack lies that is broadcast to leading axes; None where its matrices do not lie at
    equal distances."""
    missing = len(lead) - (len(shape) - 2)
    sizes = (1,) * missing + shape[:-2]
    steps = (0,) * missing + strides[:-2]
    found, count = None, 1
    for n, own, step in reversed(list(zip(lead, sizes, steps, strict=True))):
        if n == 1:
            continue
        step = step if own == n else 0
        if found is None:
            found = step
        elif step != found * count:
            return None
        count *= n
    return MatrixPlaces(found or 0, strides[-2], strides[-1])

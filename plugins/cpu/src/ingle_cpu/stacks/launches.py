"""The kernel calls that compute an operation on a stack of small matrices."""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.kernels import SIZES

from ..jit.engine import engine
from ..matmul.machine import target
from ..matmul.plan import Contraction, EntrySpec, Pointer
from .abi import LANES, StackArgs
from .elimination import Wanted, elimination_source
from .problem import StackProblem
from .triangles import cholesky_source, substitution_source

WORTH = 1 << 14
"""Multiplications that a worker should have at least."""
LINE = 64
WANTED: dict[str, Wanted] = {
    "adjugate": "adjugate",
    "det": "determinant",
    "inv": "inverse",
    "slogdet": "determinant",
    "solve": "solution",
}
"""What elimination is for."""


@lru_cache(maxsize=16)
def address(name: str, dtype: str, unit: bool) -> int:
    """Of the kernel for an operation."""
    if name == "cholesky":
        source = cholesky_source(dtype, target())
    elif name == "solve_triangular":
        source = substitution_source(unit, dtype, target())
    else:
        source = elimination_source(WANTED[name], dtype, target())
    return engine().addresses(source)[0]


def stack_entries(problem: StackProblem, workers: int) -> Contraction:
    """The entries of a problem; its operands and results are operands of theirs.

    The results are the matrices, or mantissas and exponents of determinants; then what says of
    each tile whether it was declined.
    """
    size = SIZES[problem.dtype]
    right = problem.name in ("solve", "solve_triangular")
    count = 2 if right else 1
    a, b, first, second, third = (
        Pointer("operand", n) for n in (0, count - 1, count, count + 1, count + 2)
    )
    factors = problem.name in ("det", "slogdet")
    out, mantissa, exponent, declined = (
        (first, first, second, third) if factors else (first, first, first, second)
    )
    worker = problem.rows * (problem.rows + problem.columns) * LANES * 8 + LINE
    of_a, of_b, of_out = (lying.in_bytes(size) for lying in (problem.a, problem.b, problem.out))
    args = StackArgs(
        matrices=problem.matrices, rows=problem.rows, columns=problem.columns,
        a=of_a.matrix, a_row=of_a.row, a_column=of_a.column,
        b=of_b.matrix, b_row=of_b.row, b_column=of_b.column,
        out=of_out.matrix, out_row=of_out.row, out_column=of_out.column,
        first_a=of_a.first, first_b=of_b.first, first_out=of_out.first, worker_bytes=worker,
    )  # fmt: skip
    entry = EntrySpec(
        address(problem.name, problem.dtype, problem.unit),
        (a, b, out, mantissa, exponent, declined, Pointer("scratch")),
        tuple(args),
        problem.units,
        max(1, WORTH * problem.units // problem.products),
    )
    return Contraction((entry,), (worker * workers,))

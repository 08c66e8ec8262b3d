"""What the kernels for stacks of small matrices are given: arguments, and pointers in order."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

LANES = 8
"""Matrices that are worked on at once."""
POINTERS = ("a", "b", "out", "mantissa", "exponent", "declined", "scratch")
"""Those that a kernel does not use are any other of them."""


class StackArgs(NamedTuple, Generic[T]):
    """The arguments; strides are bytes. A unit of work is as many matrices as there are lanes."""

    matrices: T
    rows: T
    columns: T  # of right-hand sides
    a: T  # from matrix to matrix
    a_row: T
    a_column: T
    b: T
    b_row: T
    b_column: T
    out: T
    out_row: T
    out_column: T
    first_a: T  # where its first row and column are, from where it begins in memory
    first_b: T
    first_out: T
    worker_bytes: T  # of scratch memory

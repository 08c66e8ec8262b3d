"""What the kernels of products by codes are given: their arguments, and their pointers in order."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

CHUNK = 32
"""Numbers of a row that are decoded at once: no scale changes within."""
POINTERS = ("rows", "codes", "scale", "zero", "out")
"""Of the product; a zero point that there is none of is any other of them."""
SPREAD_POINTERS = ("x", "rows")


class ProductArgs(NamedTuple, Generic[T]):
    """The arguments of the product; strides are bytes.

    A unit of work is some columns of the result, which are rows of the weight, for all of its rows.
    """

    rows: T
    columns: T
    block: T  # columns of a unit
    groups: T  # of numbers of a weight's row that share a scale
    chunks: T  # whole ones in a group
    left: T  # numbers behind the last whole chunk, where there is one group
    row: T  # from row to row of what is multiplied
    codes_row: T
    scale_row: T
    zero_row: T
    out_row: T


class SpreadArgs(NamedTuple, Generic[T]):
    """The arguments of the kernel that puts rows in the order of codes; strides are bytes.

    A unit of work is a row.
    """

    chunks: T
    left: T
    x_row: T
    row: T

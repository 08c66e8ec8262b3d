"""Products by codes on operands as they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import HALVES, SIZES
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op
from ingle.tensor.ops.quantization.products import QUANTIZED_LINEAR

from ..cudnn import Strides, contiguous
from ..row_lines import BYTES

LARGEST = (1 << 31) - 1
"""Blocks of a grid, and places that kernels count in 32 bits."""
WORD = 4
"""Bytes of codes that a thread loads at once."""


class Blocks(NamedTuple):
    """What of a weight shares an entry of a parameter.

    Attributes:
        rows: of the weight that share one.
        group: neighbours of a row that share one; 0 for all of them.
        strides: of the parameter, along blocks of rows and of neighbours.
    """

    rows: int
    group: int
    strides: Strides


class CodesProblem(NamedTuple):
    """A product of rows by a weight of codes.

    Attributes:
        bits, signed: of a code.
        dtype: of x, the scale and the result.
        rows, columns, width: of x, of the weight, and numbers in each.
        codes_row: bytes from row to row of codes.
        words: whether rows of codes are words of 4 bytes that lie at multiples of that.
        x, out: strides of these, from row to row and within one.
        vector: bytes of x that are loaded at once; 0 where its numbers are loaded one by one.
        scale: how the scale is shared.
        zero: how the zero point is; None where it is a number.
        zero_dtype: of the zero point.
    """

    bits: int
    signed: bool
    dtype: str
    rows: int
    columns: int
    width: int
    codes_row: int
    words: bool
    x: Strides
    out: Strides
    vector: int
    scale: Blocks
    zero: Blocks | None
    zero_dtype: str

    @property
    def bytes(self) -> int:
        """Of a row of codes."""
        return -(-self.width * self.bits // 8)


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None, offsets: Sequence[int] | None = None,
) -> CodesProblem | None:  # fmt: skip
    """The problem of a product by codes; None for what no kernel takes.

    Args:
        op: the operation.
        avals: of its operands.
        strides: of the tensors among these, in elements; in C order, and a zero point without axes
            a number, if none are given.
        results: strides of the result; in C order if none are given.
        offsets: of the tensors from a multiple of 16 bytes, in bytes; 0 if none are given.
    """
    if op.operation is not QUANTIZED_LINEAR:
        return None
    kind, (x, codes, scale, zero) = op.attributes["dtype"], avals
    dtype = x.dtype.name
    if scale.dtype is not x.dtype or (dtype != "float32" and dtype not in HALVES):
        return None
    rows, width, columns = math.prod(x.shape[:-1]), x.shape[-1], codes.shape[0]
    if 0 in (rows, width, columns) or max(rows, width, columns) > LARGEST // 8:
        return None
    tensors = [a for n, a in enumerate(avals) if n < 3 or a.shape]
    if strides is None:
        strides = [contiguous(a.shape) for a in tensors]
    of_x, of_codes, of_scale, *of_zero = strides
    offsets = offsets or [0] * len(strides)
    made = (*x.shape[:-1], columns)
    here = _in_rows(x.shape, of_x)
    out = _in_rows(made, results[0] if results else contiguous(made))
    if here is None or out is None or (codes.shape[1] > 1 and of_codes[1] != 1):
        return None
    weight = columns, width
    each = WORD * 8 // kind.bits
    row, taken = (of_codes[0] if columns > 1 else 0), codes.shape[1]
    size = SIZES[dtype]
    vector = min(each * size, BYTES)
    if here[1] != 1 or width % each or any(n % vector for n in (offsets[0], here[0] * size)):
        vector = 0
    return CodesProblem(
        kind.bits, kind.is_signed, dtype, rows, columns, width, row,
        not any(n % WORD for n in (offsets[1], row, taken)), here, out, vector,
        _blocks(scale.shape, of_scale, weight),
        _blocks(zero.shape, of_zero[0], weight) if of_zero else None, zero.dtype.name,
    )  # fmt: skip


def _blocks(shape: tuple[int, ...], strides: Strides, weight: tuple[int, int]) -> Blocks:
    if not shape:
        return Blocks(weight[0], 0, (0, 0))
    (down, across), (columns, width) = shape, weight
    steps = [0 if n == 1 else step for n, step in zip(shape, strides, strict=True)]
    return Blocks(columns // down, width // across if across > 1 else 0, tuple(steps))


def _in_rows(shape: tuple[int, ...], strides: Strides) -> Strides | None:
    """Strides from row to row, and within one; None where rows do not lie at equal distances.

    >>> _in_rows((2, 3, 4), (12, 4, 1)), _in_rows((2, 3, 4), (24, 4, 1))
    ((4, 1), None)
    """
    row, count = 0, 1
    for size, step in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if size == 1:
            continue
        if count == 1:
            row = step
        elif step != row * count:
            return None
        count *= size
    return row, strides[-1] if shape[-1] > 1 else 1

"""Weights of codes, and products by them, on operands as they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import HALVES, SIZES
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import DType
from ingle.tensor.operation import Op
from ingle.tensor.ops.quantization.decoding import DECODE_WEIGHT
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

    @property
    def of_rows(self) -> bool:
        """Whether several rows share an entry that others do not."""
        return self.rows > 1 and self.strides[0] != 0


class CodedWeight(NamedTuple):
    """A weight of codes.

    Attributes:
        bits, signed: of a code.
        dtype: of the scale, and of what is computed.
        rows, width: of the weight, and numbers in each.
        codes_row: bytes from row to row of codes.
        words: whether rows of codes are words of 4 bytes that lie at multiples of that.
        scale: how the scale is shared.
        zero: how the zero point is; None where it is a number.
        zero_dtype: of the zero point; empty where it is a number.
    """

    bits: int
    signed: bool
    dtype: str
    rows: int
    width: int
    codes_row: int
    words: bool
    scale: Blocks
    zero: Blocks | None
    zero_dtype: str

    @property
    def bytes(self) -> int:
        """Of a row of codes."""
        return -(-self.width * self.bits // 8)

    @property
    def numbers(self) -> tuple[int, ...]:
        """What kernels are told of it, in the order of `coded_words`."""
        zero = self.zero or Blocks(1, 0, (0, 0))
        return (
            self.width, self.rows, self.bytes, self.codes_row, 0, self.scale.rows,
            *self.scale.strides, zero.rows, *zero.strides,
        )  # fmt: skip


class CodesProblem(NamedTuple):
    """A product of rows by a weight of codes.

    Attributes:
        weight: of the dtype that x and the result have, too.
        rows: of x.
        x, out: strides of these, from row to row and within one.
        vector: bytes of x that are loaded at once; 0 where its numbers are loaded one by one.
    """

    weight: CodedWeight
    rows: int
    x: Strides
    out: Strides
    vector: int


class DecodingProblem(NamedTuple):
    """A weight that is made of its codes.

    Attributes:
        weight: the codes.
        out: strides of the result.
    """

    weight: CodedWeight
    out: Strides


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
    x, *parts = avals
    rows, width = math.prod(x.shape[:-1]), x.shape[-1]
    of_x, *lying = _strides(avals, strides)
    shift, *shifts = offsets or [0] * (len(lying) + 1)
    kind = op.attributes["dtype"]
    weight = _weight(kind, parts, width, lying, shifts)
    if weight is None or parts[1].dtype is not x.dtype or not 0 < rows <= LARGEST // 8:
        return None
    made = (*x.shape[:-1], weight.rows)
    here = _in_rows(x.shape, of_x)
    out = _in_rows(made, results[0] if results else contiguous(made))
    if here is None or out is None or _extent(x.shape, of_x) > LARGEST:
        return None
    each, size = WORD * 8 // kind.bits, SIZES[weight.dtype]
    vector = min(each * size, BYTES)
    if here[1] != 1 or width % each or any(n % vector for n in (shift, here[0] * size)):
        vector = 0
    return CodesProblem(weight, rows, here, out, vector)


def decoding_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None, offsets: Sequence[int] | None = None,
) -> DecodingProblem | None:  # fmt: skip
    """The problem of a weight that is made of its codes; with arguments as of `problem_of`."""
    if op.operation is not DECODE_WEIGHT:
        return None
    size, lying = op.attributes["size"], _strides(avals, strides)
    weight = _weight(op.attributes["dtype"], avals, size, lying, offsets or [0] * len(lying))
    if weight is None or -(-weight.bytes // WORD) * weight.rows > LARGEST // 2:
        return None
    out = results[0] if results else contiguous((weight.rows, size))
    return DecodingProblem(weight, out)


def _strides(avals: Sequence[Aval], strides: Sequence[Strides] | None) -> Sequence[Strides]:
    """Those of the tensors, of which the last operand is one if it has axes."""
    if strides is not None:
        return strides
    tensors = avals if avals[-1].shape else avals[:-1]
    return [contiguous(a.shape) for a in tensors]


def _weight(
    kind: DType, avals: Sequence[Aval], width: int, strides: Sequence[Strides],
    offsets: Sequence[int],
) -> CodedWeight | None:  # fmt: skip
    codes, scale, zero = avals
    of_codes, of_scale, *of_zero = strides
    rows, taken = codes.shape
    dtype = scale.dtype.name
    if dtype != "float32" and dtype not in HALVES:
        return None
    if 0 in (rows, width) or max(rows, width) > LARGEST // 8 or (taken > 1 and of_codes[1] != 1):
        return None
    places = zip((a.shape for a in avals if a.shape), (s for s in strides if s), strict=True)
    if any(_extent(shape, steps) > LARGEST for shape, steps in places):
        return None
    row = of_codes[0] if rows > 1 else 0
    words = not any(n % WORD for n in (offsets[0], row, taken))
    return CodedWeight(
        kind.bits, kind.is_signed, dtype, rows, width, row, words,
        _blocks(scale.shape, of_scale, (rows, width)),
        _blocks(zero.shape, of_zero[0], (rows, width)) if of_zero else None,
        zero.dtype.name if of_zero else "",
    )  # fmt: skip


def _blocks(shape: tuple[int, ...], strides: Strides, weight: tuple[int, int]) -> Blocks:
    if not shape:
        return Blocks(weight[0], 0, (0, 0))
    (down, across), (rows, width) = shape, weight
    steps = [0 if n == 1 else step for n, step in zip(shape, strides, strict=True)]
    return Blocks(rows // down, width // across if across > 1 else 0, tuple(steps))


def _extent(shape: tuple[int, ...], strides: Strides) -> int:
    """Elements from the first to the last."""
    return sum(abs(step) * (n - 1) for n, step in zip(shape, strides, strict=True))


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

"""What the template of products by codes computes: sizes, and how operands lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op
from ingle.tensor.ops.quantization.products import QUANTIZED_LINEAR

from ..matmul.machine import multiplies_pairs, target
from .abi import CHUNK
from .product import Coding

MOST_ROWS = 512
"""With more, decoding the weight once takes less time than what its product gains by panels."""
MOST_ROWS_OF_FEW_REGISTERS = 64
"""The same where registers have room for the sums of half as many columns."""
MOST_ROWS_OF_PAIRS = 32
"""The same where the product of decoded weights multiplies pairs of bfloat16 at once."""
DTYPES = frozenset({"float32", "float16", "bfloat16"})

Strides = tuple[int, ...]


class CodesProblem(NamedTuple):
    """A product of rows by a weight of codes.

    Attributes:
        coding: how the weight is kept.
        rows, columns, depth: of x, of the weight, and numbers in each.
        groups: of numbers of a weight's row that share a scale.
        x_row: numbers from row to row of x.
        codes_row: bytes from row to row of codes.
        scale_row, zero_row: numbers from row to row of these, 0 where all rows share them.
    """

    coding: Coding
    rows: int
    columns: int
    depth: int
    groups: int
    x_row: int
    codes_row: int
    scale_row: int
    zero_row: int

    @property
    def products(self) -> int:
        """Multiplications."""
        return self.rows * self.columns * self.depth

    @property
    def spread(self) -> bool:
        """Whether rows of x are put in another order, are converted, or get zeros at their end."""
        half = self.coding.dtype != "float32"
        return half or self.coding.bits == 4 or self.depth % CHUNK != 0


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Mapping[str, Strides] | None = None
) -> CodesProblem | None:
    """The problem of a product by codes; None for what the template does not take.

    Args:
        strides: of the tensors, in elements; in C order if not given.
    """
    if op.operation is not QUANTIZED_LINEAR:
        return None
    dtype = op.attributes["dtype"]
    known = dict(zip(op.operation.tensors, avals, strict=True))
    x, codes, scale, zero = (known[name] for name in ("x", "codes", "scale", "zero_point"))
    if x.dtype.name not in DTYPES or scale.dtype != x.dtype or zero.dtype.name != "int32":
        return None
    rows, depth, columns = math.prod(x.shape[:-1]), x.shape[-1], codes.shape[0]
    if dtype.bits not in (4, 8) or 0 in (rows, depth, columns) or rows > most_rows(x.dtype.name):
        return None
    if strides is None:
        shifted, strides = bool(zero.shape), {name: in_order(a.shape) for name, a in known.items()}
    else:
        shifted = "zero_point" in strides
    if "scale" not in strides or (shifted and zero.shape != scale.shape):
        return None
    groups = scale.shape[1] if scale.shape else 1
    if scale.shape and scale.shape[0] not in (1, columns):
        return None
    if groups > 1 and (depth // groups) % CHUNK:
        return None
    row = _row_stride(x.shape, strides["x"])
    of_codes, of_scale = strides["codes"], strides["scale"]
    of_zero = strides["zero_point"] if shifted else ()
    dense = [(codes.shape, of_codes), (scale.shape, of_scale)]
    dense += [(zero.shape, of_zero)] if shifted else []
    if row is None or any(s and s[-1] > 1 and at[-1] != 1 for s, at in dense):
        return None
    coding = Coding(dtype.bits, dtype.is_signed, shifted, x.dtype.name)
    return CodesProblem(
        coding, rows, columns, depth, groups, row, of_codes[0], _by_row(scale, of_scale),
        _by_row(zero, of_zero) if shifted else 0,
    )  # fmt: skip


def most_rows(dtype: str) -> int:
    """Up to how many rows of a dtype codes are decoded in registers."""
    if dtype == "bfloat16" and multiplies_pairs():
        return MOST_ROWS_OF_PAIRS
    return MOST_ROWS if target().registers >= 32 else MOST_ROWS_OF_FEW_REGISTERS


def in_order(shape: tuple[int, ...]) -> Strides:
    """Strides in C order."""
    return tuple([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])


def _by_row(parameter: Aval, strides: Strides) -> int:
    return strides[0] if parameter.shape and parameter.shape[0] > 1 else 0


def _row_stride(shape: tuple[int, ...], strides: Strides) -> int | None:
    """From row to row of dense rows; None where these do not lie at equal distances."""
    if shape[-1] > 1 and strides[-1] != 1:
        return None
    found = None
    count = 1
    for n, step in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if n == 1:
            continue
        if found is None:
            found = step
        elif step != found * count:
            return None
        count *= n
    return shape[-1] if found is None else found

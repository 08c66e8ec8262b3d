"""In which dtype the library writes a product, and whether it writes what a call stores itself."""

from __future__ import annotations

from ingle.fusion.device.kernels import HALVES, ContractionCall, accumulator_dtype

from .cublas import LARGEST

_FEW_TERMS = 4096
"""Terms of the sums of half types up to which a product is no longer than what passes these sums to
its epilogue in float32."""


def dtype_of_sums(call: ContractionCall) -> str:
    """In which dtype the library passes sums to an epilogue: that of the operation's result where
    to move them in a wider one would take about as long as the product."""
    short = call.dtype in HALVES and call.sizes[2] <= _FEW_TERMS and call.windows is None
    return call.dtype if short else accumulator_dtype(call.dtype)


def direct_result(call: ContractionCall) -> str | None:
    """The dtype in which the library can write what a call stores, where it does no more than
    round the sums."""
    if len(call.operands) != 1 or len(call.stores) != 1:
        return None
    names = [instruction.name for instruction in call.code]
    dtype = call.dtypes[0]
    rounded = names == ["result", "cast"] and dtype == call.dtype and dtype in HALVES
    if not rounded and (names != ["result"] or dtype != accumulator_dtype(call.dtype)):
        return None
    *_, row, column = call.operands[0].strides
    n = call.sizes[1]
    if not ((column == 1 or n == 1) and (n <= row <= LARGEST or call.sizes[0] == 1)):
        return None
    steps = zip(call.operands[0].strides, call.batch, strict=False)
    return dtype if all(step > 0 for step, size in steps if size > 1) else None

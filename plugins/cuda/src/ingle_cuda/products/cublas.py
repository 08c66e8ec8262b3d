"""Matrix products by cuBLAS."""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

from ingle.fusion.device.kernels import SIZES, ContractionCall, accumulator_dtype

from ..driver.errors import CudaError
from ..driver.libraries import library

TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
"""Of `cudaDataType`."""
_COMPUTES = {"float32": 68, "float64": 70}
"""Of `cublasComputeType_t`: sums in float32, without tensor float 32; and in float64."""
_TENSOR_FLOAT = 77
_WORKSPACE = 32 << 20
"""Bytes that the library may use; what it takes by itself would be gone in a captured graph."""
_DEFAULT_ALGORITHM = -1
LARGEST = (1 << 31) - 1
"""Of sizes and distances between rows: the library takes them as 32-bit integers."""
STATUS = {
    1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH",
    11: "MAPPING_ERROR", 13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED",
}  # fmt: skip
"""Of `cublasStatus_t`."""


class Operand(NamedTuple):
    """A matrix for the library.

    Attributes:
        transposed: whether its columns are what lies side by side.
        leading: elements from one row, or column, to the next.
        copied: whether its elements lie otherwise, so that it is copied into that order first.
        steps: strides along the batch.
        padded: of a copy whose lines are longer, or more, than its own: how many lines it has, and
            the strides of what is copied, along lines and along the batch; see `alignment`.
    """

    transposed: bool
    leading: int
    copied: bool
    steps: tuple[int, ...]
    padded: tuple[int, int, tuple[int, ...]] | None = None


class Product(NamedTuple):
    """A product as the library sees it.

    Attributes:
        batch: sizes.
        m, n, k: sizes.
        a, b: the operands.
        dtype: of the operands.
        result: dtype of what it writes.
    """

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    dtype: str
    result: str


def operand_of(
    batch: tuple[int, ...], rows: int, columns: int, strides: tuple[int, ...]
) -> Operand:
    """How the library reads a matrix of so many rows and columns, or a copy of it."""
    *steps, down, across = strides
    for transposed, near, far, lines, length in (
        (False, across, down, rows, columns), (True, down, across, columns, rows),
    ):  # fmt: skip
        if lines > 1 and far > LARGEST:
            continue
        if (near == 1 or length == 1) and (far >= length or lines == 1):
            return Operand(transposed, max(far if lines > 1 else length, length), False, (*steps,))
    return ordered(batch, rows, columns)


def ordered(batch: tuple[int, ...], rows: int, columns: int) -> Operand:
    """A copy of matrices in order; what repeats along the batch is copied as often."""
    inner = rows * columns
    steps = [inner * math.prod(batch[n + 1 :]) for n in range(len(batch))]
    return Operand(False, columns, True, tuple(steps))


def product_of(call: ContractionCall, result: str) -> Product:
    """The product of a call, whose windows become a matrix."""
    m, n, k = call.sizes
    if call.windows is not None:
        k *= call.windows.turns
        b = ordered(call.batch, k, n)
        a = operand_of(call.batch, m, k, call.a.strides)
        if call.windows.turns > 1:
            a = ordered(call.batch, m, k)
        return Product(call.batch, m, n, k, a, b, call.dtype, result)
    a = operand_of(call.batch, m, k, call.a.strides)
    b = operand_of(call.batch, k, n, call.b.strides)
    return Product(call.batch, m, n, k, a, b, call.dtype, result)


class Cublas:
    """A handle of the library, whose products go to a stream."""

    def __init__(self, tensor_float: bool) -> None:
        self._library = library("cublas")
        self._handle = ctypes.c_void_p()
        self._check("cublasCreate_v2", ctypes.byref(self._handle))
        self._stream = -1
        self._computes = {**_COMPUTES, "float32": _TENSOR_FLOAT if tensor_float else 68}

    def _check(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status:
            raise CudaError(f"{name} answers {STATUS.get(status, f'error {status}')}")

    def multiply(
        self, product: Product, stream: int, a: int, b: int, out: int, row: int,
        steps: tuple[int, ...], workspace: tuple[int, int],
    ) -> None:  # fmt: skip
        """Puts a product into a stream.

        Args:
            a, b, out: addresses.
            row: elements of the result from one row to the next.
            steps: strides of the result along the batch.
            workspace: the address and bytes of memory that it may use, always the stream's.
        """
        if stream != self._stream:  # which takes the workspace away
            self._check("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
            given = ctypes.c_void_p(workspace[0]), ctypes.c_size_t(workspace[1])
            self._check("cublasSetWorkspace_v2", self._handle, *given)
            self._stream = stream
        computed = accumulator_dtype(product.dtype)
        kind = ctypes.c_double if computed == "float64" else ctypes.c_float
        one, zero = kind(1), kind(0)
        how = self._computes[computed], _DEFAULT_ALGORITHM
        # The longest axis last, which one call goes along.
        real = [axis for axis, n in enumerate(product.batch) if n > 1] or [0]
        real.sort(key=lambda axis: product.batch[axis])
        *outer, last = [product.batch[axis] for axis in real]
        strides = [[x[axis] for axis in real] for x in (product.a.steps, product.b.steps, steps)]
        size, result = SIZES[product.dtype], SIZES[product.result]
        for number in range(math.prod(outer)):
            place = _unravel(number, outer)
            shift = [sum(p * s for p, s in zip(place, x, strict=False)) for x in strides]
            # In the library's order of columns, the product is that of B and A.
            self._check(
                "cublasGemmStridedBatchedEx", self._handle,
                int(product.b.transposed), int(product.a.transposed),
                product.n, product.m, product.k, ctypes.byref(one),
                ctypes.c_void_p(b + shift[1] * size), TYPES[product.dtype], product.b.leading,
                ctypes.c_longlong(strides[1][-1]),
                ctypes.c_void_p(a + shift[0] * size), TYPES[product.dtype], product.a.leading,
                ctypes.c_longlong(strides[0][-1]), ctypes.byref(zero),
                ctypes.c_void_p(out + shift[2] * result), TYPES[product.result], row,
                ctypes.c_longlong(strides[2][-1]), last, *how,
            )  # fmt: skip


def _unravel(number: int, sizes: list[int]) -> list[int]:
    found = []
    for size in reversed(sizes):
        found.append(number % size)
        number //= size
    return found[::-1]


def is_worth_it(dtype: str, m: int, n: int, k: int) -> bool:
    """Whether the library takes a product: not one of few rows or columns, which reads a matrix
    once, and none of sizes that it does not know."""
    return dtype in TYPES and min(m, n) >= 4 and max(m, n, k) <= LARGEST

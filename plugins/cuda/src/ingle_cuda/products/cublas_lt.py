"""Matrix products by cuBLASLt, which adds a row of numbers to each row of sums before these are
rounded: a layer's bias takes no kernel of its own.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from ingle.fusion.device.kernels import SIZES

from ..driver.errors import CudaError
from ..driver.libraries import library
from .cublas import STATUS, TYPES, Product

_SUMS, _SCALE = 68, 0
"""Sums in float32, and the factor of these: of `cublasComputeType_t` and `cudaDataType`."""
_TURNED_A, _TURNED_B, _EPILOGUE, _ADDED = 3, 4, 7, 8
"""Of `cublasLtMatmulDescAttributes_t`."""
_ADDS_ROW = 4
"""Of `cublasLtEpilogue_t`."""
_WORKSPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)
"""Of `cublasLtMatmulPreferenceAttributes_t`; the latter of A, B, C and D."""
_NOT_SUPPORTED = 15
_ANSWER = 96
"""Bytes of a `cublasLtMatmulHeuristicResult_t`, which begins with the algorithm."""
ALIGNED = 16
"""Bytes that addresses are multiples of for the fast ways."""


class _Way(NamedTuple):
    """What the library is given for products of a kind.

    Attributes:
        work: what is computed; it has the address of the row that is added.
        a, b, out: how matrices lie, in the library's order.
        algorithm: the library's choice.
    """

    work: ctypes.c_void_p
    a: ctypes.c_void_p
    b: ctypes.c_void_p
    out: ctypes.c_void_p
    algorithm: Any


class CublasLt:
    """A handle of the library.

    Args:
        nbytes: of the memory that it may use.
    """

    def __init__(self, nbytes: int) -> None:
        self._library = library("cublasLt")
        self._handle = ctypes.c_void_p()
        self._check("cublasLtCreate", ctypes.byref(self._handle))
        self._nbytes = nbytes
        self._known: dict[tuple[Product, int, int], _Way | None] = {}

    def knows(self, product: Product, row: int) -> bool:
        """Whether the library has a way, wherever operands begin.

        Args:
            product: of one matrix of half types with another.
            row: elements of the result from one row to the next.
        """
        least = SIZES[product.dtype]
        return all(self._way(product, row, bytes_) is not None for bytes_ in (ALIGNED, least))

    def multiply(
        self, product: Product, stream: int, a: int, b: int, added: int, out: int, row: int,
        workspace: int,
    ) -> None:  # fmt: skip
        """Puts a product into a stream.

        Args:
            a, b, out: addresses.
            added: that of as many numbers as a row of the result has.
            row: elements of the result from one row to the next.
            workspace: the address of memory that it may use.
        """
        begins = (a | b | added | out) % ALIGNED == 0
        way = self._way(product, row, ALIGNED if begins else SIZES[product.dtype])
        assert way is not None, "knows() has seen it"
        self._set(way.work, _ADDED, ctypes.c_void_p(added))
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        # In the library's order of columns, the product is that of B and A.
        self._check(
            "cublasLtMatmul", self._handle, way.work, ctypes.byref(one), ctypes.c_void_p(b), way.b,
            ctypes.c_void_p(a), way.a, ctypes.byref(zero), ctypes.c_void_p(out), way.out,
            ctypes.c_void_p(out), way.out, way.algorithm, ctypes.c_void_p(workspace),
            ctypes.c_size_t(self._nbytes), ctypes.c_void_p(stream),
        )  # fmt: skip

    def _check(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status:
            raise CudaError(f"{name} answers {STATUS.get(status, f'error {status}')}")

    def _set(self, work: ctypes.c_void_p, number: int, value: Any) -> None:
        given = ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
        self._check("cublasLtMatmulDescSetAttribute", work, number, *given)

    def _way(self, product: Product, row: int, alignment: int) -> _Way | None:
        key = product, row, alignment
        if key not in self._known:
            self._known[key] = self._found(product, row, alignment)
        return self._known[key]

    def _found(self, product: Product, row: int, alignment: int) -> _Way | None:
        a, b, work = product.a, product.b, ctypes.c_void_p()
        self._check("cublasLtMatmulDescCreate", ctypes.byref(work), _SUMS, _SCALE)
        self._set(work, _TURNED_A, ctypes.c_int32(b.transposed))
        self._set(work, _TURNED_B, ctypes.c_int32(a.transposed))
        self._set(work, _EPILOGUE, ctypes.c_uint32(_ADDS_ROW))
        # From this the library takes how the row is aligned.
        self._set(work, _ADDED, ctypes.c_void_p(alignment))
        m, n, k = product.m, product.n, product.k
        left = self._matrix(product.dtype, *((k, n) if b.transposed else (n, k)), b.leading)
        right = self._matrix(product.dtype, *((m, k) if a.transposed else (k, m)), a.leading)
        out = self._matrix(product.result, n, m, row)
        algorithm = self._algorithm((work, left, right, out, out), alignment)
        return None if algorithm is None else _Way(work, right, left, out, algorithm)

    def _matrix(self, dtype: str, rows: int, columns: int, leading: int) -> ctypes.c_void_p:
        """How a matrix lies, by columns."""
        found = ctypes.c_void_p()
        self._check(
            "cublasLtMatrixLayoutCreate", ctypes.byref(found), TYPES[dtype], ctypes.c_uint64(rows),
            ctypes.c_uint64(columns), ctypes.c_int64(leading),
        )  # fmt: skip
        return found

    def _algorithm(self, matrices: tuple[ctypes.c_void_p, ...], alignment: int) -> Any | None:
        """The library's choice; None if it has none."""
        wanted = ctypes.c_void_p()
        self._check("cublasLtMatmulPreferenceCreate", ctypes.byref(wanted))
        limits = [(_WORKSPACE, ctypes.c_size_t(self._nbytes))]
        limits += [(number, ctypes.c_uint32(alignment)) for number in _ALIGNMENTS]  # type: ignore[misc]
        for number, value in limits:
            given = ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
            self._check("cublasLtMatmulPreferenceSetAttribute", wanted, number, *given)
        found, count = (ctypes.c_uint64 * (_ANSWER // 8))(), ctypes.c_int()
        status = self._library.cublasLtMatmulAlgoGetHeuristic(
            self._handle, *matrices, wanted, 1, found, ctypes.byref(count)
        )
        self._check("cublasLtMatmulPreferenceDestroy", wanted)
        if status not in (0, _NOT_SUPPORTED):
            name = "cublasLtMatmulAlgoGetHeuristic"
            raise CudaError(f"{name} answers {STATUS.get(status, f'error {status}')}")
        return found if count.value and not status else None

"""Sorts: kernels make a word of each element, CuPy sorts the words, kernels read the places.

A word is the number of the row, the element as an integer in its order, and its place in the row.
No two are equal, so any sort of them is a stable one, and all rows are sorted at once. Elements of
64 bits leave no room beside them: these are sorted by value and then by row, both times by a sort
that keeps the order of equal ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from ingle.fusion.device.kernel_backend import Held, MemoryHandle, StridedHandle
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import DType
from ingle.tensor.operation import Op

from ..cudnn import strides_of

if TYPE_CHECKING:
    from ..backend import CudaBackend

_WORD = 64
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
_INFINITY = {
    "float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000,
}  # fmt: skip
"""The bits of it, above which NaN lies."""


class WordSorts(Protocol):
    """Sorts of so many words, which lie one behind the other."""

    def sort(self, words: Held, count: int) -> None:
        """Brings words into order where they are."""

    def order(self, words: Held, count: int) -> Held:
        """The places of words in order, by a stable sort, as integers of 64 bits."""


class Sorts:
    """Sorts rows of values that lie in order.

    Args:
        backend: that runs the kernels.
        words: sorts these.
    """

    def __init__(self, backend: CudaBackend, words: WordSorts) -> None:
        self._backend = backend
        self._word_sorts = words

    def run(self, op: Op, x: Any) -> MemoryHandle:
        """The result of an `argsort` or a `sort`."""
        axis, descending = op.attributes["axis"], op.attributes["descending"]
        rank = len(x.shape)
        turned = self._turned(x, [a for a in range(rank) if a != axis] + [axis])
        size, count = turned.shape[-1], math.prod(turned.shape)
        words, mask = self._words(turned, size, count, descending)
        is_places = op.operation.name == "argsort"
        dtype = op.attributes["dtype"] if is_places else x.dtype
        found = self._backend.empty(Aval(turned.shape, dtype))
        if is_places:
            source, given = _places_source(dtype), [words.address]
        else:
            source, given = _values_source(dtype), [words.address, turned.address]
        kernel = self._backend.kernel(source, "read_places")
        self._backend.launch(kernel, [*given, found.address], [size, mask], 0, count)
        back = [*range(axis), rank - 1, *range(axis, rank - 1)]
        return self._turned(found, back)

    def _turned(self, x: Any, axes: list[int]) -> MemoryHandle:
        """A value with its axes in another order, in C order."""
        if axes == sorted(axes):
            return self._backend.in_order(x)
        shape, strides = [x.shape[a] for a in axes], [strides_of(x)[a] for a in axes]
        aval = Aval(tuple(shape), x.dtype)
        return self._backend.in_order(
            StridedHandle(self._backend, aval, x.memory, x.address, strides)
        )

    def _words(self, x: MemoryHandle, size: int, count: int, descending: bool) -> tuple[Held, int]:
        """Words in order of the rows of `x`, and which bits of them are places in a row."""
        bits = 8 * x.dtype.itemsize
        below, above = (size - 1).bit_length(), (count // size - 1).bit_length()
        is_whole = below + bits + above <= _WORD
        words = self._backend.allocate(8 * count)
        kernel = self._backend.kernel(_words_source(x.dtype, descending, is_whole), "write_words")
        args = [size, below, below + bits]
        self._backend.launch(kernel, [x.address, words.address], args, 0, count)
        if is_whole:
            self._word_sorts.sort(words, count)
            return words, (1 << below) - 1
        order = self._word_sorts.order(words, count)
        if count > size:
            order = self._by_row(order, size, count)
        return order, 0

    def _by_row(self, order: Held, size: int, count: int) -> Held:
        """Places among all elements, brought into the order of rows, in which they stay."""
        rows = self._backend.allocate(8 * count)
        kernel = self._backend.kernel(_ROWS, "write_rows")
        self._backend.launch(kernel, [order.address, rows.address], [size], 0, count)
        again = self._word_sorts.order(rows, count)
        kernel = self._backend.kernel(_CHOSEN, "choose")
        self._backend.launch(kernel, [order.address, again.address, rows.address], [], 0, count)
        return rows


def _kernel(name: str, arguments: str, code: str) -> str:
    """Source that runs `code` for each `i`."""
    return f"""
extern "C" __global__ void {name}({arguments}long long begin, long long end)
{{
    const long long i = begin + (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= end)
        return;
{code}
}}
"""


def _words_source(dtype: DType, descending: bool, whole: bool) -> str:
    """The kernel that writes a word for each element; only the element as an integer if the rest
    has no room."""
    unsigned, bits = _UNSIGNED[dtype.itemsize], 8 * dtype.itemsize
    ones, sign = f"{(1 << bits) - 1:#x}ULL", f"{1 << bits - 1:#x}ULL"
    key = "x[i]"
    if dtype.name in _INFINITY:
        # One zero, and one NaN above all; negative numbers have their order turned over.
        size = f"(x[i] & {(1 << bits - 1) - 1:#x}ULL)"
        order = f"(x[i] & {sign} && {size} ? ~(word_t)x[i] & {ones} : {size} | {sign})"
        key = f"({size} > {_INFINITY[dtype.name]:#x}ULL ? {ones} : {order})"
    elif dtype.kind == "signed":
        key = f"(x[i] ^ {sign})"
    word = f"(word_t){key} ^ {ones if descending else '0ULL'}"
    if whole:
        places = "(word_t)(i % size) | (i < size ? 0 : (word_t)(i / size) << above)"
        word = f"({word}) << below | {places}"
    arguments = f"const {unsigned} *x, word_t *out, long long size, long long below, "
    arguments += "long long above, "
    kernel = _kernel("write_words", arguments, f"    out[i] = {word};")
    return f"typedef unsigned long long word_t;{kernel}"


def _places_source(dtype: DType) -> str:
    integer = {4: "int", 8: "long long"}[dtype.itemsize]
    arguments = f"const unsigned long long *words, {integer} *out, long long size, long long mask, "
    code = f"    out[i] = ({integer}){_PLACE};"
    return _kernel("read_places", arguments, code)


def _values_source(dtype: DType) -> str:
    unsigned = _UNSIGNED[dtype.itemsize]
    arguments = (
        f"const unsigned long long *words, const {unsigned} *x, {unsigned} *out, "
        "long long size, long long mask, "
    )
    code = f"    out[i] = x[i - i % size + (long long){_PLACE}];"
    return _kernel("read_places", arguments, code)


_PLACE = "(mask ? words[i] & mask : words[i] % size)"
_ROWS = _kernel(
    "write_rows", "const long long *order, long long *rows, long long size, ",
    "    rows[i] = order[i] / size;",
)  # fmt: skip
_CHOSEN = _kernel(
    "choose", "const long long *order, const long long *again, long long *out, ",
    "    out[i] = order[again[i]];",
)  # fmt: skip

"""Operands of products that are copied first, since they lie otherwise than the library reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import LINE, SIZES, ContractionCall, Windows

from ..driver.sources import (
    COPY,
    PADDED,
    WINDOWS,
    copy_source,
    padded_source,
    windows_source,
)
from .cublas import Operand, Product


class OperandCopy(NamedTuple):
    """A copy into memory of its own.

    Attributes:
        source, name: of the kernel.
        numbers: that it takes; the first one says how many threads it has.
        nbytes: of the copy.
    """

    source: str
    name: str
    numbers: Sequence[int]
    nbytes: int


def copy_of(call: ContractionCall, product: Product, first: bool) -> OperandCopy:
    """The copy of an operand of a product.

    Args:
        first: whether it is A.
    """
    operand, size = product.a if first else product.b, SIZES[call.dtype]
    if operand.padded is not None:
        numbers = padded_numbers(call, operand, first)
        return OperandCopy(padded_source(), PADDED, numbers, size * LINE * numbers[0])
    nbytes = math.prod(call.batch) * (product.m if first else product.n) * product.k * size
    windows = None if first else call.windows
    if windows is None:
        return OperandCopy(copy_source(size), COPY, ordering(call, first), nbytes)
    source = windows_source(size, len(windows.kernel), windows.over_places)
    return OperandCopy(source, WINDOWS, windows_numbers(call, windows), nbytes)


def padded_numbers(call: ContractionCall, operand: Operand, first: bool) -> list[int]:
    """The numbers of a copy into longer lines; see `padded_source`."""
    m, n, k = call.sizes
    own = (m, k) if first else (k, n)
    mine, length = own[::-1] if operand.transposed else own
    assert operand.padded is not None
    lines, step, steps = operand.padded
    missing = 3 - len(call.batch)
    batch = [size if step else 1 for size, step in zip(call.batch, steps, strict=True)]
    sizes, each = [*[1] * missing, *batch], operand.leading // LINE
    threads = math.prod(batch) * lines * each
    return [threads, each, lines, mine, length, *sizes[1:], step, *[0] * missing, *steps]


def ordering(call: ContractionCall, first: bool) -> list[int]:
    """The numbers of a copy of an operand: how many elements, five sizes, five strides."""
    m, n, k = call.sizes
    *steps, down, across = call.a.strides if first else call.b.strides
    sizes = [*call.batch, *((m, k) if first else (k, n))]
    strides = [*steps, down, across]
    if call.windows is not None:  # turns stand between rows and what is summed over in each
        sizes.insert(-1, call.windows.turns)
        strides.insert(-1, call.windows.a_turn)
    missing = 5 - len(sizes)
    total = math.prod(sizes)
    return [total, *[1] * missing, *sizes, *[0] * missing, *strides]


def windows_numbers(call: ContractionCall, windows: Windows) -> list[int]:
    """The numbers of a copy of windows; see `windows_source`."""
    _, n, k = call.sizes
    lines = n if windows.over_places else k
    batch, steps = call.batch, call.b.strides[:-2]
    missing = 2 - len(batch)
    return [
        math.prod(batch) * windows.turns * k * n, *[1] * missing, *batch, windows.turns,
        lines // math.prod(windows.kernel), *windows.kernel, *windows.places, *windows.steps,
        *windows.spread, *windows.start, *windows.image, *windows.strides, *[0] * missing, *steps,
        windows.b_turn, windows.channel,
    ]  # fmt: skip

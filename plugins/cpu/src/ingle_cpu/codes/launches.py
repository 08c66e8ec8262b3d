"""The kernel calls that compute a product by codes."""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.kernels import SIZES

from ..jit.engine import engine
from ..matmul.machine import target
from ..matmul.plan import Contraction, EntrySpec, Pointer
from .abi import CHUNK, ProductArgs, SpreadArgs
from .problem import CodesProblem
from .product import SIZE, Coding, product_source
from .spread import spread_source

BLOCK = 32
"""Columns that a unit of work has: their codes stay in the cache from row to row."""
WORTH = 1 << 15
"""Multiplications that a worker should have at least."""
SPREAD_WORTH = 1 << 14
"""Numbers that a worker should have to put in order at least."""


@lru_cache(maxsize=64)
def product_address(coding: Coding) -> int:
    """Of the product."""
    return engine().addresses(product_source(coding, target()))[0]


@lru_cache(maxsize=8)
def spread_address(bits: int, dtype: str) -> int:
    """Of the kernel that puts rows in the order of codes."""
    return engine().addresses(spread_source(bits, dtype, target()))[0]


def codes_entries(problem: CodesProblem) -> Contraction:
    """The entries that compute a problem; its operands and its result are operands of theirs."""
    operands = 4 if problem.coding.shifted else 3
    x, codes, scale = (Pointer("operand", n) for n in range(3))
    zero = Pointer("operand", 3) if problem.coding.shifted else scale
    out = Pointer("operand", operands)
    depth, chunk, dtype = problem.depth, CHUNK * SIZE, problem.coding.dtype
    of_x = problem.x_row * SIZES[dtype]
    whole, left = divmod(depth, CHUNK)
    padded = -(-depth // CHUNK) * chunk
    args = ProductArgs(
        rows=problem.rows, columns=problem.columns, block=BLOCK, groups=problem.groups,
        chunks=whole // problem.groups, left=left,
        row=padded if problem.spread else of_x, codes_row=problem.codes_row,
        scale_row=problem.scale_row * SIZES[dtype], zero_row=problem.zero_row * SIZES["int32"],
        out_row=problem.columns * SIZES[dtype],
    )  # fmt: skip
    units = -(-problem.columns // BLOCK)
    grain = max(1, WORTH // (BLOCK * problem.rows * depth))
    product = EntrySpec(
        product_address(problem.coding), (x, codes, scale, zero, out), tuple(args), units, grain
    )
    if not problem.spread:
        return Contraction((product,), ())
    rows = Pointer("scratch")
    spread = EntrySpec(
        spread_address(problem.coding.bits, dtype), (x, rows),
        tuple(SpreadArgs(whole, left, of_x, padded)),
        problem.rows, max(1, SPREAD_WORTH // depth),
    )  # fmt: skip
    product = product._replace(pointers=(rows, *product.pointers[1:]))
    return Contraction((spread, product), (problem.rows * padded,))

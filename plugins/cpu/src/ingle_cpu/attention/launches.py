"""The kernel calls that compute an attention or its gradient."""

from __future__ import annotations

import math
from functools import lru_cache

from ingle.fusion.device.kernels import SIZES

from ..jit.engine import engine
from ..matmul.code import micro_address, pack_addresses
from ..matmul.machine import target
from ..matmul.pack_launches import packed
from ..matmul.packing import Packing
from ..matmul.plan import Contraction, EntrySpec, Pointer
from ..matmul.tile import Tile, compute_dtype
from .abi import BackwardArgs, ForwardArgs, MaskKind
from .backward import ADDRESSES as BACKWARD_ADDRESSES
from .backward import backward_source
from .blocks import KEYS, QUERIES, SQUARE, Tiling, rounded, tiling
from .forward import ADDRESSES as FORWARD_ADDRESSES
from .forward import forward_source
from .problem import AttentionProblem, Lying, in_order

LINE = 64
SCALE_AT = 0
"""The place of the scale among the arguments of the last entry."""


def attention_entries(problem: AttentionProblem, scale: int, workers: int) -> Contraction:
    """The entries that compute a problem; its operands and results are operands of theirs.

    Args:
        scale: of scores, as bits.
        workers: the size of the thread pool; each worker has scratch memory of its own.
    """
    make = _backward if problem.backward else _forward
    return make(problem, scale, workers)


@lru_cache(maxsize=64)
def forward_address(dtype: str, mask: MaskKind) -> int:
    """Of the forward kernel."""
    return engine().addresses(forward_source(dtype, mask))[0]


@lru_cache(maxsize=64)
def backward_address(dtype: str, mask: MaskKind) -> int:
    """Of the backward kernel."""
    return engine().addresses(backward_source(dtype, mask))[0]


class _Memory:
    """Places in a worker's memory, one after the other."""

    def __init__(self) -> None:
        self.end = 0

    def place(self, nbytes: int) -> int:
        found = self.end
        self.end += -(-nbytes // LINE) * LINE
        return found

    @property
    def total(self) -> int:
        """Not a multiple of a page, where the workers' blocks would meet in the same cache sets."""
        return self.end + 576


def _code(tile: Tile, dtype: str) -> int:
    return micro_address(tile, dtype, target())


def _three(steps: tuple[int, ...]) -> tuple[int, int, int]:
    first, second, third = (0,) * (3 - len(steps)) + steps
    return first, second, third


def _bytes(lying: Lying, size: int) -> tuple[int, ...]:
    """Bytes along three axes of heads, and along its own."""
    return tuple([s * size for s in (*_three(lying.heads), *lying.own)])


def _forward(problem: AttentionProblem, scale: int, workers: int) -> Contraction:
    dtype = compute_dtype(problem.dtype)
    tiles, stored, size = tiling(dtype), SIZES[problem.dtype], SIZES[dtype]
    named = problem.named
    queries, keys = problem.queries, problem.keys
    block = rounded(QUERIES, tiles.rows, queries)
    key_block = rounded(KEYS, tiles.width, keys)
    columns = _packed(problem, "key", tiles)
    rows = _packed(problem, "value", tiles)
    memory = _Memory()
    width = tiles.last(problem.values) + (tiles.panels(problem.values) - 1) * tiles.width
    high = -(-block // tiles.rows) * tiles.rows
    pitch, out_pitch = key_block * size, width * size
    mask = named.get("mask")
    of_mask = (0,) * 5 if mask is None else _bytes(mask, 1 if problem.mask == "bool" else stored)
    q, last = _bytes(named["query"], stored), tiles.last(problem.values)
    sizes = (1,) * (3 - len(problem.batch)) + problem.batch
    values = {
        "scale": scale,
        "score": _code(tiles.tile("packed"), dtype),
        "mix": _code(tiles.tile("direct"), dtype),
        "last_mix": _code(tiles.tile("direct", last), dtype),
        "pack": pack_addresses(problem.dtype, "single", target())[0],
        "queries": queries, "keys": keys, "features": problem.features, "values": problem.values,
        "causal": int(problem.causal), "blocks": -(-queries // block), "block": block,
        "key_block": key_block, "batch1": sizes[1], "batch2": sizes[2],
        **dict(zip(("q0", "q1", "q2", "q_row", "q_column"), q, strict=True)),
        **dict(zip(("k0", "k1", "k2"), columns.packed_steps, strict=True)),
        **dict(zip(("v0", "v1", "v2"), rows.packed_steps, strict=True)),
        **dict(zip(("m0", "m1", "m2", "m_row", "m_column"), of_mask, strict=True)),
        "last_columns": last, "pitch": pitch,
        "out_pitch": out_pitch, "keeps_lse": int(problem.lse),
        "packed_at": memory.place(high * problem.features * size),
        "scores_at": memory.place(high * pitch),
        "out_at": memory.place(high * out_pitch),
        "top_at": memory.place(block * size),
        "total_at": memory.place(block * tiles.lanes * size),
    }  # fmt: skip
    args = ForwardArgs(**values, worker_bytes=memory.total)
    scratch = [Pointer("scratch", n) for n in range(3)]
    operand = [Pointer("operand", n) for n in range(len(problem.operands) + 1 + problem.lse)]
    made = len(problem.operands)
    pointers = (
        operand[0], scratch[1], scratch[2], operand[3 if mask is not None else 0], scratch[0],
        operand[made], operand[made + problem.lse],
    )  # fmt: skip
    function = forward_address(problem.dtype, problem.mask)
    places = [ForwardArgs._fields.index(n) for n in FORWARD_ADDRESSES]
    units = problem.heads * values["blocks"]
    compute = EntrySpec(function, pointers, tuple(args), units, 1, addresses=tuple(places))
    entries = (
        packed(columns, (operand[1], scratch[1])),
        packed(rows, (operand[2], scratch[2]), independent=True),
        compute,
    )
    return Contraction(entries, (memory.total * workers, columns.nbytes, rows.nbytes))


def _backward(problem: AttentionProblem, scale: int, workers: int) -> Contraction:
    dtype = compute_dtype(problem.dtype)
    tiles, stored, size = tiling(dtype), SIZES[problem.dtype], SIZES[dtype]
    named, shared = problem.named, problem.shared
    queries, keys = problem.queries, problem.keys
    features, values = problem.features, problem.values
    block = rounded(SQUARE, tiles.rows, queries)
    key_block = rounded(SQUARE, tiles.square, keys)
    memory = _Memory()
    high, long = (-(-n // tiles.rows) * tiles.rows for n in (queries, keys))
    columns = tiles.panels(keys) * tiles.width
    wide = [(tiles.panels(n) - 1) * tiles.width + tiles.last(n) for n in (features, values)]
    of_block = -(-block // tiles.rows) * tiles.rows * key_block * size
    places = {
        "keys_at": columns * features, "values_at": columns * values, "rows_at": keys * wide[0],
        "query_tiles_at": high * features, "g_tiles_at": high * values,
        "query_rows_at": queries * wide[0], "g_rows_at": queries * wide[1],
        "out_rows_at": queries * wide[1], "by_query_at": high * wide[0],
        "by_key_at": long * wide[0], "by_value_at": long * wide[1],
        "level_at": queries, "lse_at": queries,
    }  # fmt: skip
    at = {name: memory.place(count * size) for name, count in places.items()}
    at |= {name: memory.place(of_block) for name in ("scores_at", "flows_at")}
    sizes = tuple([n for axis, n in enumerate(problem.batch) if axis != shared])
    sizes = (1,) * (3 - len(sizes)) + sizes
    last = tiles.last(features), tiles.last(values)
    given = {
        "scale": scale,
        "score": _code(tiles.tile("packed"), dtype),
        "mix": _code(tiles.tile("direct"), dtype),
        "last_mix": _code(tiles.tile("direct", last[0]), dtype),
        "turned": _code(tiles.tile("columns"), dtype),
        "last_by_key": _code(tiles.tile("columns", last[0]), dtype),
        "last_by_value": _code(tiles.tile("columns", last[1]), dtype),
        "pack": pack_addresses(problem.dtype, "single", target())[0],
        "queries": queries, "keys": keys, "features": features, "values": values,
        "causal": int(problem.causal), "block": block, "key_block": key_block,
        "batch1": sizes[1], "batch2": sizes[2],
        "shared": 1 if shared is None else problem.batch[shared],
        "last_features": last[0], "last_values": last[1], "pitch": key_block * size,
        "worker_bytes": memory.total,
    }  # fmt: skip
    letters = {"g": "g", "query": "q", "key": "k", "value": "v", "mask": "m", "out": "o"}
    for name, letter in letters.items():
        lying = named.get(name, Lying((0,) * len(problem.batch), (0, 0)))
        nbytes = 1 if name == "mask" and problem.mask == "bool" else stored
        given |= _steps(letter, lying, nbytes, shared)
    given |= _steps("l", named["lse"], size, shared)
    rows = tuple([n * queries * features for n in in_order(problem.batch)])
    given |= _steps("r", Lying(rows, ()), stored, shared)
    args = BackwardArgs(**at, **{k: v for k, v in given.items() if k in BackwardArgs._fields})
    operand = dict(zip(named, [Pointer("operand", n) for n in range(len(named))], strict=True))
    made = [Pointer("operand", len(named) + n) for n in range(3)]
    pointers = (
        *(operand[name] for name in ("g", "query", "key", "value")),
        operand.get("mask", operand["g"]), operand["out"], operand["lse"], Pointer("scratch", 0),
        *made,
    )  # fmt: skip
    function = backward_address(problem.dtype, problem.mask)
    addresses = tuple([BackwardArgs._fields.index(n) for n in BACKWARD_ADDRESSES])
    entry = EntrySpec(function, pointers, args, math.prod(sizes), 1, addresses=addresses)
    return Contraction((entry,), (memory.total * workers,))


def _steps(letter: str, lying: Lying, size: int, shared: int | None) -> dict[str, int]:
    """Bytes along the axes of heads, the last one that of the heads that share, and its own."""
    others = tuple([s for axis, s in enumerate(lying.heads) if axis != shared])
    along = 0 if shared is None else lying.heads[shared]
    steps = [*_three(others), along, *lying.own]
    names = [f"{letter}{n}" for n in range(4)] + [f"{letter}_row", f"{letter}_column"]
    return {name: step * size for name, step in zip(names, steps, strict=False)}


def _packed(problem: AttentionProblem, name: str, tiles: Tiling) -> Packing:
    """Keys as columns, values as rows of the right operand of tiles."""
    size = SIZES[problem.dtype]
    lying = problem.named[name]
    row, column = (s * size for s in lying.own)
    heads = tuple([s * size for s in lying.heads])
    if name == "key":
        return Packing(
            problem.dtype, problem.batch, (*heads, column, row), problem.keys, problem.features,
            tiles.width, tiles.width,
        )  # fmt: skip
    return Packing(
        problem.dtype, problem.batch, (*heads, row, column), problem.values, problem.keys,
        tiles.width, tiles.last(problem.values),
    )  # fmt: skip

"""Products of matrices, in batches, with an epilogue: the kernel calls that compute them.

    c[.., i, j] = epilogue(sum over k of a[.., i, k] * b[.., k, j], operands at [.., i, j])

for operands of any strides. The code that runs depends on dtypes, on the shape of a tile and on the
epilogue; sizes and strides are arguments, so that a new batch size compiles nothing. The sum over k
is taken in blocks of `DEPTH_BLOCK` in order of k, or lane by lane where both operands have k last;
which of these depends on the problem alone, never on the cut or the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES
from ingle.tensor.static_values import largest, smallest

from .abi import ADDRESSES, DriverArgs
from .beside import BESIDE
from .beside_entries import beside_contraction
from .blocking import choose as choose
from .blocking import depths, widths
from .code import (
    beside_address,
    driver_address,
    epilogue_code,
    micro_address,
    pack_addresses,
    pad_address,
    release_address,
    window_address,
)
from .epilogue import Epilogue as Epilogue
from .epilogue import NestArgs, is_identity, nest_args
from .epilogue import identity as identity
from .fetching import fetched_of
from .machine import target
from .microkernel import lanes_of
from .pack_launches import packed
from .packing import Packing
from .plan import A, B, Pointer, aligned
from .plan import Contraction as Contraction
from .plan import EntrySpec as EntrySpec
from .problem import Choice as Choice
from .problem import Problem as Problem
from .problem import three, three_steps
from .taps_packing import WINOGRAD
from .tile import a_form, b_form, compute_dtype
from .tile_fit import tiles_of
from .window_args import window_args
from .window_blocking import padded
from .winograd_entries import compile_winograd, winograd_contraction

GROUP = 4
"""Tiles of a row that are computed before the epilogue is called for them."""
FLOPS_OF_A_CHUNK = 1_000_000
"""Less is not worth another worker."""
_ARGUMENTS, _POINTERS = 1024, 2048
"""Bytes of a worker's scratch memory for those of an epilogue; more for one with more operands."""


def contraction(
    problem: Problem,
    epilogue: Epilogue,
    strides: Sequence[Sequence[int]],
    scalars: Sequence[int] = (),
    *,
    workers: int,
    choice: Choice | None = None,
    ready: bool = False,
) -> Contraction:
    """The entries that compute a problem.

    Args:
        strides: of the epilogue's operands in elements along the batch axes, i and j.
        scalars: the epilogue's, as bit patterns.
        workers: the size of the thread pool; each worker has scratch memory of its own.
        choice: how; `choose` says so if None.
        ready: panels that an earlier packing of the same choice made are at hand: b points at
            these, or `PANELS` does if they are of a weight's taps.
    """
    empty = not math.prod(three(problem.batch))
    chosen = choice or choose(problem, workers)
    if chosen.pack_b == BESIDE:
        return beside_contraction(problem, chosen, epilogue, strides, scalars, workers)
    if chosen.pack_b == WINOGRAD:
        return winograd_contraction(problem, chosen, epilogue, strides, scalars, workers, ready)
    entries: list[EntrySpec] = []
    of_nest = nest_args(problem, epilogue, strides, scalars)
    places = _scratch(problem, chosen, len(of_nest.numbers), len(epilogue.operands) + 1)
    scratch = [places.total * workers]
    a, b = A, B
    if chosen.pack_b == "before" and not ready:
        b = Pointer("scratch", len(scratch))
        packing = packing_of_b(problem, chosen)
        entries.append(packed(packing, (B, b)))
        scratch.append(packing.nbytes)
    if chosen.pack_a == "before":
        a = Pointer("scratch", len(scratch))
        packing = packing_of_a(problem, chosen)
        entries.append(packed(packing, (A, a), independent=bool(entries)))
        scratch.append(packing.nbytes)
    if empty:
        entries = [entry._replace(units=0) for entry in entries]
    entries.append(_compute_entry(problem, chosen, epilogue, strides, of_nest, (a, b), places))
    return Contraction(tuple(entries), tuple(scratch))


def compile_code(problem: Problem, choice: Choice, epilogue: Epilogue) -> None:
    """Compiles all that the entries of a problem run, so that it is there when they are made."""
    outer = len(problem.batch) + 1
    epilogue_code(epilogue, outer, compute_dtype(problem.a_dtype), target())
    if choice.pack_b == BESIDE:
        beside_address(problem.a_dtype, target())
        micro_address(choice.tile, problem.a_dtype, target())
        return
    if choice.pack_b == WINOGRAD:
        compile_winograd(problem, choice)
        return
    driver_address()
    if "before" in (choice.pack_a, choice.pack_b):
        pack_addresses(problem.a_dtype, a_form(choice.tile), target())
        pack_addresses(problem.b_dtype, b_form(choice.tile), target())
    _addresses(problem, choice)


def packing_of_a(problem: Problem, choice: Choice) -> Packing:
    """Rows of a in panels as high as a tile, or one behind the other for tiles that read rows."""
    rows = choice.tile.rows
    *batch, i, k = _a_bytes(problem, choice)
    if choice.takes_rows:
        return _along_k(problem.a_dtype, problem, (*batch, i, k), problem.m)
    deep, form = problem.k // choice.tile.numbers, a_form(choice.tile)
    return Packing(
        problem.a_dtype, problem.batch, (*batch, k, i), problem.m, deep, rows, rows, form
    )


def packing_of_b(problem: Problem, choice: Choice) -> Packing:
    """Columns of b in panels as wide as a tile."""
    width, last, _ = widths(problem, choice)
    steps = _b_bytes(problem, choice)
    if choice.tile.kind == "dot":
        *batch, k, j = steps
        return _along_k(problem.b_dtype, problem, (*batch, j, k), problem.n)
    deep, form = problem.k // choice.tile.numbers, b_form(choice.tile)
    return Packing(problem.b_dtype, problem.batch, steps, problem.n, deep, width, last, form)


def _a_bytes(problem: Problem, choice: Choice) -> tuple[int, ...]:
    """Bytes along the batch axes, i, and from one element of a panel to the next along k."""
    *others, k = (s * SIZES[problem.a_dtype] for s in problem.a_strides)
    return (*others, k * choice.tile.numbers)


def _b_bytes(problem: Problem, choice: Choice) -> tuple[int, ...]:
    """Bytes along the batch axes, from one element of a panel to the next along k, and along j."""
    *batch, k, j = (s * SIZES[problem.b_dtype] for s in problem.b_strides)
    return (*batch, k * choice.tile.numbers, j)


def _along_k(dtype: str, problem: Problem, steps: tuple[int, ...], count: int) -> Packing:
    """Rows of a or columns of b one behind the other, for tiles that read along k."""
    k = problem.k
    return Packing(dtype, problem.batch, steps, k, count, k, k)


class _Scratch(NamedTuple):
    """Places in a worker's scratch memory, and its size."""

    pointers: int
    tiles: int
    packed: int
    panel: int
    sums: int
    offsets: int
    total: int


def _scratch(problem: Problem, choice: Choice, arguments: int, pointers: int) -> _Scratch:
    dtype = compute_dtype(problem.a_dtype)
    size = SIZES[dtype]
    width, _, panels = widths(problem, choice)
    pointers_at = max(_ARGUMENTS, aligned(8 * arguments))
    tiles = pointers_at + max(_POINTERS, aligned(8 * pointers))
    packed = tiles + aligned(_group(choice) * choice.tile.rows * width * size)
    depth, _ = depths(problem, choice)
    deep = smallest(problem.k // choice.tile.numbers * problem.at_once, depth) * size
    high = -(-tiles_of(problem, choice) // choice.row_blocks) * choice.tile.rows
    panel = packed + aligned(high * deep if choice.pack_a == "local" else 0)
    # Windows are packed a vector's square at a time, which may reach behind the last row.
    behind = width * lanes_of(dtype, target()) * size if problem.windows else 0
    local = choice.near * width * deep + behind
    sums = panel + aligned(local if choice.pack_b == "local" else 0)
    wide = -(-panels // choice.panel_blocks) * width
    if image := padded(problem, choice):
        local = image.nbytes(_block_panels(problem, choice), width, size)
        sums = panel + aligned(local)
    long = problem.k // choice.tile.numbers > depth or problem.turns > problem.at_once
    waiting = high * wide * size if long else 0
    offsets = aligned(sums + waiting)
    total = offsets + aligned(problem.k * SIZES["int32"] if image else 0)
    # Not a multiple of a page, where the workers' tiles would meet in the same cache sets.
    return _Scratch(pointers_at, tiles, packed, panel, sums, offsets, total + 576)


def _block_panels(problem: Problem, choice: Choice) -> int:
    """Panels of the largest unit of work."""
    _, _, panels = widths(problem, choice)
    return -(-panels // choice.panel_blocks)


def _group(choice: Choice) -> int:
    """Tiles of a row that are computed before the epilogue is called for them."""
    return choice.near if choice.slides else GROUP


def _compute_entry(
    problem: Problem,
    choice: Choice,
    epilogue: Epilogue,
    strides: Sequence[Sequence[int]],
    of_nest: NestArgs,
    sources: tuple[Pointer, Pointer],
    places: _Scratch,
) -> EntrySpec:
    _, _, panels = widths(problem, choice)
    units = math.prod(problem.batch) * choice.row_blocks * choice.panel_blocks
    if not (problem.m and panels):
        units = 0
    outer = len(problem.batch) + 1
    code = epilogue_code(epilogue, outer, compute_dtype(problem.a_dtype), target())
    values = {**_addresses(problem, choice), "epilogue": code.addresses[0]}
    values |= _shape(problem, choice, places)
    values |= _addressing(problem, choice)
    values |= _result(problem, choice, epilogue, strides)
    values |= _copied_image(problem, choice)
    onward = choice.row_blocks * choice.panel_blocks == 1 and three(problem.batch)[2] > 1
    values["b_next"] = values["b2"] if onward else 0
    values |= {"inner_at": of_nest.inner_at, "column_at": of_nest.column_at}
    values |= {"nest_args": len(of_nest.numbers), "operands": len(epilogue.operands)}
    fetched = fetched_of(problem, choice, epilogue, strides)
    values |= {"fetched": fetched.ahead, "asked": fetched.asked, "fetched_row": fetched.row}
    rest = [0] * (len(epilogue.operands) - len(fetched.numbers))
    columns = [
        steps[-1] * SIZES[operand.dtype]
        for steps, operand in zip(strides, epilogue.operands, strict=True)
    ]
    function = driver_address()
    operands = (Pointer("operand", k) for k in range(len(epilogue.operands)))
    windows: tuple[int, ...] = ()
    if problem.windows is not None:
        rows = problem.n if problem.windows.over_places else problem.k
        windows = window_args(problem.windows, rows, problem.b_dtype)
    values["window_args"] = len(windows)
    args = (*DriverArgs(**values), *windows, *columns, *fetched.numbers, *rest, *of_nest.numbers)
    of_one = 2 * problem.m * problem.n * problem.k * problem.turns
    flops = of_one * math.prod(problem.batch) // largest(units, 1)
    grain = largest(1, FLOPS_OF_A_CHUNK // largest(flops, 1))
    pointers = (*sources, Pointer("scratch", 0), *operands)
    addresses = tuple([DriverArgs._fields.index(name) for name in ADDRESSES if values[name]])
    return EntrySpec(function, pointers, args, units, grain, code=(code,), addresses=addresses)


def _addresses(problem: Problem, choice: Choice) -> dict[str, int]:
    """Of what the driver calls, whatever the epilogue is."""
    dtype = compute_dtype(problem.a_dtype)
    _, last, _ = widths(problem, choice)
    pack_a = pack_b = 0
    if choice.pack_a == "local":
        pack_a = pack_addresses(problem.a_dtype, a_form(choice.tile), target())[0]
    if choice.pack_b == "local":
        pack_b = _pack_b_address(problem, choice)
    # As a plain number: code is compiled for it, and sizes may be symbols.
    last_tile = choice.tile._replace(vectors=index(last // lanes_of(dtype, target())))
    image = padded(problem, choice)
    return {
        "micro": micro_address(choice.tile, dtype, target()),
        "last_micro": micro_address(last_tile, dtype, target()),
        "pack_a": pack_a,
        "pack_b": pack_b,
        "pad": pad_address(problem.b_dtype, image.phases, target()) if image else 0,
        "release": release_address() if choice.tile.in_tiles else 0,
    }


def _pack_b_address(problem: Problem, choice: Choice) -> int:
    if problem.windows is None:
        return pack_addresses(problem.b_dtype, b_form(choice.tile), target())[0]
    return window_address(problem.b_dtype, problem.windows.over_places, target())


def _shape(problem: Problem, choice: Choice, places: _Scratch) -> dict[str, int]:
    width, last, panels = widths(problem, choice)
    depth, depth_block = depths(problem, choice)
    sizes = three(problem.batch)
    return {
        **_turning(problem), "m": problem.m, "n": problem.n,
        "k": problem.k // choice.tile.numbers, "rows": choice.tile.rows,
        "width": width, "last_width": last, "panels": panels, "tiles": tiles_of(problem, choice),
        "row_blocks": choice.row_blocks, "panel_blocks": choice.panel_blocks,
        "block_panels": _block_panels(problem, choice), "near": choice.near,
        "depth": depth, "depth_block": depth_block, "group": _group(choice),
        "size": SIZES[compute_dtype(problem.a_dtype)],
        "batch1": max(sizes[1], 1), "batch2": max(sizes[2], 1),
        "worker_bytes": places.total, "pointers_at": places.pointers, "tile_at": places.tiles,
        "packed_at": places.packed,
        "panel_at": places.panel, "sums_at": places.sums, "offsets_at": places.offsets,
    }  # fmt: skip


def _copied_image(problem: Problem, choice: Choice) -> dict[str, int]:
    """How a unit's part of an image lies between zeros, if tiles read it there; and panels in it.

    What is no image is one row.
    """
    width, last, panels = widths(problem, choice)
    image = padded(problem, choice)
    if image is None:
        over = (panels - 1) * width + last - problem.n if panels else 0
        over = 0 if choice.tile.kind == "streamed" else over  # it stores no more than there is
        names = (
            "wide", "origin", "pitch", "turns_of_rows", "turn", "apart", "low", "span", "down",
            "across", "channel", "flat", "b_vector", "tile_vector",
        )  # fmt: skip
        return {**dict.fromkeys(names, 0), "along": panels, "over": over, "columns": problem.n}
    block, size = _block_panels(problem, choice), SIZES[compute_dtype(problem.b_dtype)]
    along = image.along(width)
    apart = image.plane(block, width, size) if image.flat else image.wide
    places, down = image.across // image.stacked, image.down // image.stacked
    return {
        "wide": image.wide, "origin": image.origin, "pitch": image.pitch,
        "turns_of_rows": image.turns, "turn": apart * image.phases, "apart": apart,
        "low": image.low, "span": image.span, "down": image.down, "across": image.across,
        "channel": image.channel(block, width, size), "along": along,
        "over": (along - 1) * width + last - image.columns, "flat": int(image.flat),
        "columns": image.columns if image.flat else problem.n,
        "b_vector": down * image.pitch * size, "tile_vector": places * size,
    }  # fmt: skip


def _turning(problem: Problem) -> dict[str, int]:
    """How often k is gone through, and the bytes from turn to turn."""
    if problem.windows is None:
        return {"turns": 1, "at_once": 1, "a_turn": 0, "b_turn": 0}
    turns, a, b = problem.windows[-3:]
    sizes = SIZES[problem.a_dtype], SIZES[problem.b_dtype]
    steps = {"a_turn": a * sizes[0], "b_turn": b * sizes[1]}
    return {"turns": turns, "at_once": problem.at_once, **steps}


def _addressing(problem: Problem, choice: Choice) -> dict[str, int]:
    """How far things are apart, in bytes."""
    width, last, _ = widths(problem, choice)
    size = SIZES[compute_dtype(problem.a_dtype)]
    dot = choice.tile.kind == "dot"
    of_a, of_b = packing_of_a(problem, choice), packing_of_b(problem, choice)
    *_, a_row, a_step = _a_bytes(problem, choice)
    *_, b_k, b_j = _b_bytes(problem, choice)
    deep = problem.k // choice.tile.numbers
    if choice.takes_rows and choice.pack_a:
        a_row, a_step = deep * size, size
    if dot:  # Tiles of this kind walk over columns and read along k.
        b_j = deep * size if choice.pack_b else b_j
    ready, before = choice.pack_a == "before", choice.pack_b == "before"
    rows, in_panels = choice.tile.rows, choice.pack_a and not choice.takes_rows
    a = of_a.packed_steps if ready else of_a.steps
    b = of_b.packed_steps if before else of_b.steps
    b_step = b_j if dot else width * size if choice.pack_b else b_k
    if choice.slides:
        b_step = SIZES["int32"]  # of the offsets
    return {
        "a_row": a_row, "a_k": a_step, "a_step": rows * size if in_panels else a_step,
        "a_tile": rows * (deep * size if ready else a_row),
        "b_k": b_k, "b_j": b_j, "b_step": b_step,
        "last_b_step": last * size if choice.pack_b in ("before", "local") and not dot else b_step,
        "b_panel": width * deep * size if before else width * b_j,
        "a0": a[0], "a1": a[1], "a2": a[2], "b0": b[0], "b1": b[1], "b2": b[2],
    }  # fmt: skip


def _result(
    problem: Problem, choice: Choice, epilogue: Epilogue, strides: Sequence[Sequence[int]]
) -> dict[str, int]:
    """Where tiles go at once, if the epilogue does nothing with them."""
    names = ("c_row", "c0", "c1", "c2")
    dtype = compute_dtype(problem.a_dtype)
    plain = is_identity(epilogue) and strides[0][-1] == 1
    if not plain:
        return dict.fromkeys(("plain", *names), 0)
    row, steps = strides[0][-2] * SIZES[dtype], three_steps(strides[0], SIZES[dtype])
    return dict(zip(names, (row, *steps), strict=True), plain=1)

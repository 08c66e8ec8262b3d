"""The entries of a convolution with fewer multiplications."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingle.fusion.device.kernels import SIZES

from .code import epilogue_code, micro_address, taps_address, winograd_address
from .epilogue import Epilogue, nest_args
from .machine import target
from .microkernel import lanes_of
from .plan import PANELS, A, B, Contraction, EntrySpec, Pointer, aligned
from .problem import Choice, Problem, three, three_steps
from .taps_packing import taps_matrix
from .tile import Tile
from .winograd import WIDEST, Winograd, winograd_of
from .winograd_code import ADDRESSES, SIZE, WinogradArgs
from .winograd_taps import taps_packing, turned_taps

AT_ONCE = 32
"""Features whose products wait in the second-level cache."""
GROUP_BYTES = 16 << 10
"""Results that go through the epilogue together: a part of the first-level cache."""
SAME_SETS, FURTHER = 1024, 192
"""Bytes by multiples of which matrices lie in few sets of the first-level cache, so that what a
patch adds to all of them pushes itself out; and by how much further apart they lie then."""
_ARGUMENTS, _POINTERS = 1024, 2048
"""Bytes of a worker's memory for those of an epilogue; more for one with more operands."""


def winograd_contraction(
    problem: Problem, choice: Choice, epilogue: Epilogue, strides: Sequence[Sequence[int]],
    scalars: Sequence[int], workers: int, ready: bool,
) -> Contraction:  # fmt: skip
    """The entries: one that turns the taps, unless these are ready, and one that does all else."""
    lying = winograd_of(problem)
    assert lying is not None, "the choice was made for a problem that is computed so"
    made = taps_packing(problem, lying)
    taps = PANELS if ready else Pointer("scratch", 1)
    of_nest = nest_args(problem, epilogue, strides, scalars)
    code = epilogue_code(epilogue, len(problem.batch) + 1, problem.a_dtype, target())
    count = len(of_nest.numbers), len(epilogue.operands) + 1
    args = _args(problem, choice, lying, code.addresses[0], *count)._replace(
        operands=len(epilogue.operands), nest_args=len(of_nest.numbers),
        inner_at=of_nest.inner_at, column_at=of_nest.column_at,
    )  # fmt: skip
    columns = [
        steps[-1] * SIZES[operand.dtype]
        for steps, operand in zip(strides, epilogue.operands, strict=True)
    ]
    operands = (Pointer("operand", k) for k in range(len(epilogue.operands)))
    units = math.prod(problem.batch) * choice.panel_blocks * choice.row_blocks
    pointers = (A, B, Pointer("scratch", 0), taps, *operands)
    computing = EntrySpec(
        winograd_address(lying.form, target()), pointers,
        (*args, *columns, *of_nest.numbers), units, 1,
        code=(code,), addresses=tuple([WinogradArgs._fields.index(name) for name in ADDRESSES]),
    )  # fmt: skip
    bytes_of_workers = args.worker_bytes * workers
    if ready:
        return Contraction((computing,), (bytes_of_workers,))
    return Contraction((turned_taps(made, (A, taps)), computing), (bytes_of_workers, made.nbytes))


def compile_winograd(problem: Problem, choice: Choice) -> None:
    """Compiles what the entries run, but for the epilogue."""
    lying = winograd_of(problem)
    assert lying is not None, "the choice was made for a problem that is computed so"
    taps_address(lying.form, choice.tile.rows)
    winograd_address(lying.form, target())
    for tile in _tiles(choice):
        micro_address(tile, "float32", target())


def _tiles(choice: Choice) -> list[Tile]:
    """With one to three vectors."""
    return [choice.tile._replace(vectors=v) for v in range(1, WIDEST + 1)]


def _args(
    problem: Problem, choice: Choice, lying: Winograd, epilogue: int, arguments: int, pointers: int
) -> WinogradArgs[int]:
    form, of, lanes = lying.form, lying.windows, lanes_of("float32", target())
    high = choice.tile.rows
    size = SIZE * lanes
    rows = -(-lying.rows // choice.panel_blocks)
    vectors, of_row = -(-rows * lying.wide // lanes), -(-lying.wide // lanes)
    pitch = (vectors + 1) * lanes
    line = -(-(2 * of_row * lanes + form.patch - 2) // lanes) * lanes
    # A row of results more, and two vectors: of the last patches some are not there.
    results = aligned(((2 * rows + 1) * of.places2 + 2 * lanes) * SIZE) // SIZE
    top, left = lying.first
    begin = max(0, -left)
    seen = max(0, min(2 * lying.wide + form.patch - 2, of.image2 - left) - begin)
    matrix = lying.channels * vectors * size
    matrix += 0 if matrix % SAME_SETS else FURTHER
    at_once = min(max(1, AT_ONCE // high), -(-problem.m // high))
    group = min(max(1, GROUP_BYTES // (results * SIZE)), at_once * high)
    pointers_at = max(_ARGUMENTS, aligned(8 * arguments))
    lines_at = pointers_at + max(_POINTERS, aligned(8 * pointers))
    turned_at = lines_at + aligned(form.patch * line * SIZE)
    columns_at = turned_at + aligned(form.numbers * pitch * SIZE)
    products_at = columns_at + aligned(form.numbers * matrix)
    results_at = products_at + aligned(at_once * high * form.numbers * pitch * SIZE)
    # Not a multiple of a page, where the workers' tiles would meet in the same cache sets.
    worker_bytes = results_at + aligned(group * results * SIZE) + 576
    batches = three(problem.batch)
    micros = [micro_address(tile, problem.a_dtype, target()) for tile in _tiles(choice)]
    a_row, a_k = (s * SIZE for s in problem.a_strides[-2:])
    return WinogradArgs._make((
        *micros, epilogue, problem.m, lying.channels, high, -(-problem.m // high), at_once, group,
        choice.row_blocks, choice.panel_blocks, lying.rows, lying.tall, lying.wide,
        of.places1, of.places2, of.image1, of.image2, of.taps0, of.start0, of.spread0, of.image0,
        of.stride0, of.channel, of.stride1, of.stride2, top, left, begin, seen,
        of.start1, of.start2, of.spread1, a_row, a_k,
        *batches[1:], *three_steps(problem.b_strides, SIZE), 0, 0, 0, 0, pitch, line, results,
        matrix, taps_matrix(high, problem.m, lying.channels), worker_bytes, pointers_at, lines_at,
        turned_at, columns_at, products_at, results_at,
    ))  # fmt: skip

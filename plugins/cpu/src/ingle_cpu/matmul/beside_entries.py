"""The entries of a gradient of a weight whose images have their channels side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingle.fusion.device.kernels import SIZES

from .beside import Beside, beside_of
from .beside_ir import BesideArgs
from .blocking import DEPTH_BLOCK
from .code import beside_address, epilogue_code, micro_address
from .epilogue import Epilogue, nest_args
from .machine import target
from .microkernel import lanes_of
from .plan import A, B, Contraction, EntrySpec, Pointer, aligned
from .problem import Choice, Problem, three, three_steps

WORTH = 1 << 14
"""Elements of the weight that a worker should have at least for the epilogue."""


def beside_contraction(
    problem: Problem, choice: Choice, epilogue: Epilogue, strides: Sequence[Sequence[int]],
    scalars: Sequence[int], workers: int,
) -> Contraction:  # fmt: skip
    """The entries: one that sums, and the epilogue."""
    lying = beside_of(problem)
    assert lying is not None, "the choice was made for a problem whose images are copied so"
    dtype, size = problem.a_dtype, SIZES[problem.a_dtype]
    args = _args(problem, choice, lying)
    matrices = math.prod(problem.batch)
    result = matrices * problem.m * problem.n
    sums = Pointer("scratch", 1)
    units = matrices * choice.row_blocks * choice.panel_blocks
    summing = EntrySpec(
        beside_address(dtype, target()), (A, B, Pointer("scratch", 0), sums), args, units, 1,
        addresses=(BesideArgs._fields.index("micro"),),
    )  # fmt: skip
    outer = len(problem.batch) + 1
    code = epilogue_code(epilogue, outer, dtype, target())
    of_nest, inner_at, _ = nest_args(problem, epilogue, strides, scalars)
    of_nest[inner_at] = problem.n
    sizes = (*problem.batch, problem.m, problem.n)
    for axis in range(outer):
        of_nest[inner_at + 1 + axis] = math.prod(sizes[axis + 1 :])
    operands = (Pointer("operand", k) for k in range(len(epilogue.operands)))
    behind = EntrySpec(
        code.addresses[0], (sums, *operands), tuple(of_nest), matrices * problem.m,
        max(1, WORTH // problem.n), code=(code,),
    )  # fmt: skip
    return Contraction((summing, behind), (args.worker_bytes * workers, result * size))


def _args(problem: Problem, choice: Choice, lying: Beside) -> BesideArgs[int]:
    of, tile, size = lying.windows, choice.tile, SIZES[problem.a_dtype]
    assert problem.windows is not None, "images are those of windows"
    _, a_turn, b_turn = problem.windows[-3:]
    channels = of.channels // choice.panel_blocks
    width = tile.vectors * lanes_of(problem.a_dtype, target())
    pixel = width * size
    line = lying.wide * pixel
    plane = aligned(lying.tall * line)
    copy = channels // width * plane
    tiles = -(-problem.m // tile.rows)
    high = -(-tiles // choice.row_blocks) * tile.rows
    row = aligned(choice.near * problem.k * size) + 64
    offsets_at = choice.near * copy
    rows_at = offsets_at + aligned(lying.together * problem.k * SIZES["int32"])
    sums_at = rows_at + high * row
    sums = high * lying.taps * channels * size
    batches = three(problem.batch)
    steps = (*three_steps(problem.a_strides, size), *three_steps(problem.b_strides, size))
    return BesideArgs._make((
        micro_address(tile, problem.a_dtype, target()),
        problem.m, problem.n, problem.k, problem.turns, choice.near, lying.together, DEPTH_BLOCK,
        tile.rows, width * size, width, tiles, choice.row_blocks, choice.panel_blocks, channels,
        problem.a_strides[-2] * size, a_turn * size, row, b_turn * size, of.channel, of.stride1,
        *batches[1:], *steps, of.image1, of.image2, copy, plane, line, pixel,
        -lying.low1 * line - lying.low2 * pixel,
        of.places1, of.places2, of.step1 * line, of.step2 * pixel,
        of.taps1, of.taps2, of.spread1 * line, of.spread2 * pixel,
        (of.start1 - lying.low1) * line + (of.start2 - lying.low2) * pixel,
        # Not a multiple of a page, where the workers' sums would meet in the same cache sets.
        sums_at + aligned(sums) + 576, offsets_at, rows_at, sums_at,
    ))  # fmt: skip

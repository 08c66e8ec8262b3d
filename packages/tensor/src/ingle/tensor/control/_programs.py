"""Programs made to fit together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from ..contract import Handle, Scalar
from ..programs import Program

P = ParamSpec("P")
R = TypeVar("R")
_LIMIT = 1024


def remembered(make: Callable[P, R]) -> Callable[P, R]:
    """Keeps what a function of programs returned, as long as that holds no tensors."""
    known: dict[Any, R] = {}

    @functools.wraps(make)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        found = known.get(args)
        if found is None:
            found = make(*args, **kwargs)
            if not found.constants:  # type: ignore[attr-defined]
                if len(known) >= _LIMIT:
                    known.clear()
                known[args] = found
        return found

    return run


def unified(
    count: int, programs: Sequence[Program], closed: Sequence[Sequence[Handle | Scalar]]
) -> tuple[list[Program], list[Handle | Scalar]]:
    """Programs that share their first inputs, as programs that share all of them.

    Args:
        count: how many inputs they share.
        programs: the programs.
        closed: for each of them what stands for its other inputs.

    Returns:
        The programs, and what stands for the inputs after the first ones.
    """
    places: dict[int, int] = {}
    together: list[Handle | Scalar] = []
    avals = list(programs[0].inputs[:count])
    for program, own in zip(programs, closed, strict=True):
        for x, aval in zip(own, program.inputs[count:], strict=True):
            if id(x) not in places:
                places[id(x)] = len(avals)
                together.append(x)
                avals.append(aval)
    return [
        p.taking(avals, [*range(count), *[places[id(x)] for x in own]])
        for p, own in zip(programs, closed, strict=True)
    ], together


def carried_needs(body: Program, carries: int, needs: Sequence[bool]) -> list[bool]:
    """Which inputs of a step want cotangents: a carry also if some earlier step's inputs do."""
    own = list(needs)
    while True:
        reached = body.reached(own)[:carries]
        after = [
            f or (r and a.dtype.is_inexact)
            for f, r, a in zip(own, reached, body.inputs, strict=False)
        ]
        if after == own[:carries]:
            return own
        own[:carries] = after

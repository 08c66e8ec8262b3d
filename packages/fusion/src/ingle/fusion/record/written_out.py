"""Programs written out: the entries that their steps come to in a log.

A step of training goes back through its recording rule by rule the first time, and by a program
later on. Both shall leave one log, since a log is the key of its plan: then the first step runs by
the plan that an earlier process made of the later ones, and no step finds another log than the one
before it. What a program comes to depends on the numbers that the log has for its inputs, and these
are the same in each step; so the entries are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.operation import Op
from ingle.tensor.programs import Program

from ..ir.graph import LogEntry

HARMLESS = frozenset({("elementwise", False), ("elementwise", True), ("movement", False)})
"""Kinds of operations, and whether they have several operands, that do not fail for what operands
hold: a movement of one value reads no index that may be wrong. Elementwise ones that check indices
are told by their traits."""


def may_fail(op: Op, operands: int) -> bool:
    """Whether an operation may fail for what its operands hold."""
    traits = op.operation.traits
    return traits.checks_indices or (traits.kind, operands > 1) not in HARMLESS


def called(op: Op) -> str:
    """What an error of an operation begins with."""
    checks = op.operation.traits.checks_indices
    return str(op.attributes["called"]) if checks else op.operation.name


Place: TypeAlias = "int | None"
"""Where a program finds an input: the number of a value of the log; `~k` for the tensor that is the
`k`-th one to be new to the log, by the order of inputs; None for a number of the host."""
MOST = 64
"""So many programs are kept as entries."""


@dataclass(frozen=True, slots=True)
class StepEntries:
    """What is added to a log for a program.

    Attributes:
        entries: they.
        count: how many values the log has behind them.
        tensors: those that become inputs of the log, in order: which one of the new ones, and its
            number from then on.
        numbers: the log's scalars, in order: which input of the program each is, or its value.
        made: numbers of the values that the program returns, with what they are like.
        outputs: for each output which one of these it is; `~n` for input `n` of the program.
        reading: entries that may fail for what whole numbers hold, with the operation's name.
    """

    entries: tuple[LogEntry, ...]
    count: int
    tensors: tuple[tuple[int, int], ...]
    numbers: tuple[int | Scalar, ...]
    made: tuple[tuple[int, Aval], ...]
    outputs: tuple[int, ...]
    reading: tuple[tuple[int, str], ...]


@lru_cache(maxsize=MOST)
def written_out(program: Program, count: int, places: Sequence[Place]) -> StepEntries:
    """The entries of a program's steps, as if each had come by itself.

    Args:
        program: of operations that run as they are.
        count: how many values the log has.
        places: of the program's inputs.
    """
    entries: list[LogEntry] = []
    numbers: list[int | Scalar] = []
    reading: list[tuple[int, str]] = []
    new: dict[int, int] = {}
    values: list[Place] = list(places)
    avals = program.avals
    for op, inputs, results in program.steps:
        args: list[int] = []
        for x in inputs:
            place = None if isinstance(x, Scalar) else values[x]
            if place is not None and (place >= 0 or place in new):
                args.append(place if place >= 0 else new[place])
                continue
            if isinstance(x, Scalar) or place is None:
                numbers.append(x)
                entries.append(("scalar", x.dtype if isinstance(x, Scalar) else avals[x].dtype))
            else:
                new[place] = count
                entries.append(("input", *avals[x]))
            args.append(count)
            count += 1
        if may_fail(op, len(inputs)) and any(
            not isinstance(x, Scalar) and values[x] is not None and avals[x].dtype.is_integer
            for x in inputs
        ):
            reading.append((len(entries), called(op)))
        entries.append((op, *args))
        values += range(count, count + results)
        count += results
    made = sorted({n for n in program.outputs if n >= program.arity})
    returned = [(place, avals[n]) for n in made if (place := values[n]) is not None]
    return StepEntries(
        tuple(entries),
        count,
        tuple([(~place, number) for place, number in new.items()]),
        tuple(numbers),
        tuple(returned),
        tuple([made.index(n) if n >= program.arity else ~n for n in program.outputs]),
        tuple(reading),
    )

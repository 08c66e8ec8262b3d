"""Numbers in cells that a loop changes while it is traced: counters, rates, random places.

The loop is traced once, with numbers that know how they are computed. What they are in each
step is then computed on the host, and what differs from step to step is sliced like `xs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cell import Cell
from ..contract import Scalar
from ..device import Device
from ..dtypes import DType
from ..errors import TraceError
from ..followed import is_followed, plain
from ..ops import add, arange, asarray, full, stack, subtract
from ..programs import Traced
from ..tape import Tape
from ..tensor import Tensor
from ..transactions import Scope, current_scope


class NumberScope(Scope):
    """Shows the numbers of cells as numbers that a tape follows.

    Attributes:
        tape: what is computed of them.
        first: the numbers that the cells held before the loop.
    """

    __slots__ = ("_shown", "first", "tape")

    def __init__(self) -> None:
        super().__init__(current_scope())
        self.tape = Tape()
        self.first: dict[Cell[Any], Any] = {}
        self._shown: dict[Cell[Any], Any] = {}

    def read(self, cell: Cell[Any]) -> Any:
        value = super().read(cell)
        if cell in self.writes or isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        if cell not in self._shown:
            self.first[cell] = value
            self._shown[cell] = self.tape.input(plain(value))
        return self._shown[cell]


@dataclass(slots=True)
class Steps:
    """The numbers of all steps.

    Attributes:
        constant: scalars that the loop closes over, by place, that are the same in each step.
        varying: the others, as a tensor with a value for each step.
        last: what cells hold after the loop.
    """

    constant: dict[int, Any]
    varying: dict[int, Tensor]
    last: dict[Cell[Any], Any]


def numbers_of_steps(
    name: str, traced: Traced, scope: NumberScope, length: int, reverse: bool, where: Device | None
) -> Steps:
    """What the numbers in a loop's body are in each of its steps.

    Raises:
        TraceError: Python decided something by a number that differs from step to step.
    """
    scalars = {
        place: x
        for place, x in enumerate(traced.closed)
        if isinstance(x, Scalar) and is_followed(x.value) and x.value.tape is scope.tape  # type: ignore[union-attr]
    }
    if not scalars and not traced.numbers:
        return Steps({}, {}, {})
    results = [*[x.value for x in scalars.values()], *traced.numbers.values()]
    rows = _rows(name, scope, results, list(traced.numbers), length)
    last = dict(zip(traced.numbers, rows[-1][len(scalars) :], strict=True)) if rows else {}
    if reverse:
        rows.reverse()
    steps = Steps({}, {}, last)
    for column, (place, scalar) in enumerate(scalars.items()):
        values = [row[column] for row in rows]
        if all(v == values[0] for v in values):
            steps.constant[place] = values[0] if values else plain(scalar.value)
        else:
            steps.varying[place] = _sequence(values, scalar.dtype, where)
    return steps


def _rows(
    name: str, scope: NumberScope, results: Sequence[Any], changed: Sequence[Cell[Any]], length: int
) -> list[Sequence[Any]]:
    """The results in each step, of which the last ones are what cells hold after it."""
    run = scope.tape.program(results)
    state = dict(scope.first)
    rows: list[Sequence[Any]] = []
    for _ in range(length):
        row = run(*state.values())
        if row is None:
            raise TraceError(
                f"{name}: Python decides something by the number in a cell, such as a counter, "
                f"that is another one in step {len(rows)}; but the body is traced once. "
                "Carry the number as a 0-d tensor and use cond or where"
            )
        rows.append(row)
        after = dict(zip(changed, row[len(row) - len(changed) :], strict=True))
        state = {cell: after.get(cell, number) for cell, number in state.items()}
    return rows


def _sequence(values: Sequence[Any], dtype: DType, where: Device | None) -> Tensor:
    """Numbers as a tensor; those that another recording follows in turn stay scalars of its own."""
    if not any(map(is_followed, values)):
        return asarray(np.asarray(values, dtype.dtype), device=where)
    step = plain(values[1]) - plain(values[0])
    if dtype.is_integer and _are_even(step, values):
        run = arange(len(values), dtype=dtype, device=where)
        return add(run * step, values[0]) if step > 0 else subtract(values[0], run * -step)
    return stack([full((), v, dtype=dtype, device=where) for v in values])


def _are_even(step: Any, values: Sequence[Any]) -> bool:
    """Whether numbers go by a step, of which some are followed: a later run in which they do not is
    recorded anew. It is one question, as loops have many steps."""
    tape = next(v.tape for v in values if is_followed(v))
    found = tape.call(_even, [step, *values], _even(step, *map(plain, values)))
    return bool(found == 1)


def _even(step: int, *values: int) -> int:
    first = values[0]
    # A range is compared in C.
    return int(step != 0 and values == (*range(first, first + step * len(values), step),))

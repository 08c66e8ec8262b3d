"""What becomes of what symbols stand in, for any graph of a form that answers alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from .size_program import SizeProgram

Answering = Callable[[Sequence[Any]], "Sequence[Any] | None"]
"""From the numbers of a graph; None if it does not answer alike."""


class Answers(NamedTuple):
    """All of it as data.

    Attributes:
        fixed, expected: for each number of a graph whether it never varies, and those that do not.
        symbols, whole: places of the symbols, and of all sizes that vary.
        program: computes all sizes, and what symbols stand in, from values of the symbols.
    """

    fixed: bytes
    expected: tuple[Any, ...]
    symbols: Sequence[int]
    whole: Sequence[int]
    program: SizeProgram

    def function(self) -> Answering:
        """What becomes of a graph with some numbers."""
        fixed, expected, symbols, whole, program = self
        sizes = program.function()

        def at(numbers: Sequence[Any]) -> Sequence[Any] | None:
            if tuple(compress(numbers, fixed)) != expected:
                return None
            found = sizes(*[numbers[k] for k in symbols])
            if found is None or found[0] != tuple([numbers[k] for k in whole]):
                return None
            return found[1:]  # type: ignore[no-any-return]

        return at

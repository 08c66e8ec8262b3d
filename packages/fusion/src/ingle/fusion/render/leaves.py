"""How the leaves of scalar code get their values, whatever language it is written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..kernel.code import Instruction


class Environment(Protocol):
    """Where a kernel's code stands: each method returns what to write for a leaf."""

    def load(self, operand: int, dtype: str) -> str: ...
    def gather(self, operand: int, dtype: str, offset: str) -> str: ...
    def scalar(self, number: int, dtype: str) -> str: ...
    def index(self, axis: int) -> str: ...
    def result(self, stage: int, number: int) -> str: ...
    def row(self, stage: int, number: int) -> str: ...


LEAVES: Mapping[str, Callable[[Environment, Instruction, Sequence[str]], str]] = {
    "load": lambda e, at, a: e.load(at.value, at.dtype),
    "gather": lambda e, at, a: e.gather(at.value, at.dtype, a[0]),
    "scalar": lambda e, at, a: e.scalar(at.value, at.dtype),
    "index": lambda e, at, a: e.index(at.value),
    "result": lambda e, at, a: e.result(*at.value),
    "row": lambda e, at, a: e.row(*at.value),
}
"""By the instruction's name; it and what it takes, already written, are the other arguments."""

"""The calls that a backend is checked with: each operation's own samples, in each dtype."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ingle.tensor.dtypes import ALL_DTYPES, DType, as_dtype, from_numpy_dtype
from ingle.tensor.operation import OPERATIONS, Operation
from ingle.tensor.sample import Draw, Sample

from .trees import arrays_of

TierName = Literal["smoke", "standard", "full"]


@dataclass(frozen=True, slots=True)
class Tier:
    """How much is checked.

    Attributes:
        dtypes: in which the forward pass is checked.
        gradients: in which gradients are checked.
        seeds: how often each operation's samples are drawn anew.
        thorough: whether strides, second derivatives and expanded gradients are checked too.
    """

    dtypes: tuple[str, ...]
    gradients: tuple[str, ...]
    seeds: int
    thorough: bool


TIERS: dict[str, Tier] = {
    "smoke": Tier(("float32", "int32", "bool"), ("float32",), 1, False),
    "standard": Tier(
        ("float32", "float64", "bfloat16", "float16", "int32", "uint8", "bool", "complex64"),
        ("float64", "float32", "complex128"),
        1,
        True,
    ),
    "full": Tier(
        tuple(d.name for d in ALL_DTYPES),
        tuple(d.name for d in ALL_DTYPES if d.is_inexact),
        3,
        True,
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One call of one operation's public function."""

    operation: Operation
    dtype: DType
    sample: Sample
    name: str

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arrays among the arguments, which stand for tensors."""
        return arrays_of((self.sample.args, dict(self.sample.kwargs)))

    def wants_gradient(self, number: int) -> bool:
        """Whether there is a gradient by the array of that number."""
        asked = self.sample.gradient
        inexact = from_numpy_dtype(self.arrays[number].dtype).is_inexact
        return inexact and (number in asked if isinstance(asked, tuple) else asked)

    def tree(self) -> tuple[Any, dict[str, Any]]:
        """The arguments, for `fill_arrays`."""
        return self.sample.args, dict(self.sample.kwargs)


def cases(operation: Operation, dtype: DType | str, seed: int = 0) -> Iterator[Case]:
    """The operation's samples in a dtype; the same ones each time."""
    if operation.samples is None:
        return
    dtype = as_dtype(dtype)
    start = zlib.crc32(f"{operation.name} {dtype.name} {seed}".encode())
    for number, sample in enumerate(operation.samples(Draw(start, dtype))):
        label = f" ({sample.label})" if sample.label else ""
        yield Case(operation, dtype, sample, f"{dtype.name} sample {number}{label}")


def operations() -> list[Operation]:
    """The operations to check: all but forms that the checks of another one run."""
    return [o for o in OPERATIONS.values() if not is_training_form(o)]


def is_training_form(operation: Operation) -> bool:
    """Whether it is only how another operation is recorded: the gradient checks run it there."""
    return operation.samples is None and any(o.training is operation for o in OPERATIONS.values())


def differentiable(operation: Operation) -> bool:
    """Whether the room promises a gradient, by a rule or through its body."""
    return any(x is not None for x in (operation.vjp, operation.training, operation.body))

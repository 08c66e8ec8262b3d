"""The calls that a backend is checked with: each operation's own samples, in each dtype."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingle.tensor.dtypes import ALL_DTYPES, DType, as_dtype, from_numpy_dtype
from ingle.tensor.operation import LATE_ROOMS, OPERATIONS, Operation
from ingle.tensor.plugins import discover
from ingle.tensor.sample import FUNCTIONS, Checked, Draw, Sample

from .trees import arrays_of, leaves_of

Subject = Operation | Checked
"""What is checked: an operation, or a public function that is made of operations."""

LATE = ("ingle.tensor.checked", *LATE_ROOMS)
"""Where there are operations and samples that `import ingle.tensor` does not load."""


@dataclass(frozen=True, slots=True)
class Tier:
    """How much is checked.

    Attributes:
        dtypes: in which the forward pass is checked.
        gradients: in which gradients are checked.
        seeds: how often each operation's samples are drawn anew.
        thorough: whether strides, second derivatives and expanded gradients are checked too.
        variations: how many random variations of its samples are tried for each operation.
        programs: how many random programs are run in each of a few dtypes.
    """

    dtypes: tuple[str, ...]
    gradients: tuple[str, ...]
    seeds: int
    thorough: bool
    variations: int
    programs: int


TIERS: dict[str, Tier] = {
    "smoke": Tier(("float32", "int32", "bool"), ("float32",), 1, False, 4, 4),
    "standard": Tier(
        ("float32", "float64", "bfloat16", "float16", "int32", "uint8", "bool", "complex64"),
        ("float64", "float32", "complex128"),
        1,
        True,
        10,
        16,
    ),
    "full": Tier(
        tuple(d.name for d in ALL_DTYPES),
        tuple(d.name for d in ALL_DTYPES if d.is_inexact),
        3,
        True,
        250,
        100,
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One call of one operation's public function."""

    operation: Subject
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

    @property
    def has_functions(self) -> bool:
        """Whether functions are among the arguments: what these raise speaks for itself."""
        return any(callable(x) for x in leaves_of(self.tree()))

    def tree(self) -> tuple[Any, dict[str, Any]]:
        """The arguments, for `fill_arrays`."""
        return self.sample.args, dict(self.sample.kwargs)


def cases(operation: Subject, dtype: DType | str, seed: int = 0) -> Iterator[Case]:
    """The operation's samples in a dtype; the same ones each time."""
    if operation.samples is None:
        return
    dtype = as_dtype(dtype)
    start = zlib.crc32(f"{operation.name} {dtype.name} {seed}".encode())
    for number, sample in enumerate(operation.samples(Draw(start, dtype))):
        label = f" ({sample.label})" if sample.label else ""
        yield Case(operation, dtype, sample, f"{dtype.name} sample {number}{label}")


def subjects() -> list[Subject]:
    """All that is checked: operations, and public functions that are made of them."""
    return [*operations(), *FUNCTIONS.values()]


def operations() -> list[Operation]:
    """The operations to check: all but those of plans alone, which no function stands for, and
    forms that the checks of another one run.

    Plugins are looked for first: packages that bring some define operations, too.
    """
    discover()
    for module in LATE:
        importlib.import_module(module)
    return [o for o in OPERATIONS.values() if o.public is not None and not is_training_form(o)]


def is_training_form(operation: Operation) -> bool:
    """Whether it is only how another operation is recorded: the gradient checks run it there."""
    return operation.samples is None and any(o.training is operation for o in OPERATIONS.values())


def differentiable(subject: Subject) -> bool:
    """Whether the room promises a gradient, by a rule or through its body."""
    if isinstance(subject, Checked):
        return subject.differentiable
    return any(x is not None for x in (subject.vjp, subject.training, subject.body))


def is_composite(subject: Subject) -> bool:
    """Whether it is one operation with a body, which runs whole or expanded."""
    return isinstance(subject, Operation) and subject.body is not None


def names_of(subject: Subject) -> set[str]:
    """By which of its names an error may call it: what runs for another one speaks in its name."""
    assert subject.public is not None
    names = {subject.name, subject.name.removesuffix("_training"), subject.public.__name__}
    for_another = subject.traits.indices_from_0 if isinstance(subject, Operation) else None
    return names if for_another is None else names | {for_another}

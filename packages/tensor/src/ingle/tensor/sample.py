"""Sample inputs of operations: what the testkit checks every backend with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .dtypes import DType, as_dtype
from .operation import Traits

SIZES = (0, 1, 2, 3, 5, 8, 17, 33)
"""Sizes to draw shapes from: few, so that compiled kernels are shared between samples."""

_OPAQUE = Traits("opaque")


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of a public function; NumPy arrays among the arguments stand for tensors.

    Attributes:
        args, kwargs: of the call.
        gradient: whether finite differences make sense here (no kinks, ties or poles nearby); or
            by which of the tensors, by number, where the others are constants by definition.
        condition: how much larger than a few ulp the error may be, for cancelling sums and such.
        magnitude: of intermediate values that the result cancels from, where the inputs do not
            show it: errors are counted in ulps of at least this.
        exact: whether the result is equal bit for bit, with no tolerance.
        view: what is compared, if results are determined only up to signs or phases: a function
            of all results, made of operators and methods that tensors and arrays share.
        special: whether NaN, infinities and zeros may stand anywhere in its floating tensors, where
            the operation is elementwise, movement or a reduction.
        label: for the test's name.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    gradient: bool | tuple[int, ...] = True
    condition: float = 1.0
    magnitude: float = 0.0
    exact: bool = False
    view: Callable[..., Any] | None = None
    special: bool = True
    label: str = ""


class Draw:
    """Draws sample arrays from a seeded stream, in the dtype that is being tested.

    The testkit also draws variations of samples, in which each size stands for another one. Where
    samples compute with sizes, they ask for them first (`size`, `shape`), and the arrays then get
    just these; otherwise a size that is written in several places is exchanged in all of them.

    Args:
        seed: of the stream.
        dtype: of the arrays that `array` makes unless it is told another.
    """

    def __init__(self, seed: int, dtype: DType | str = "float32") -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = as_dtype(dtype)

    def size(self, size: int, *, least: int = 0) -> int:
        """A size, or what a variation puts in its place: nothing smaller than `least`."""
        return size

    def shape(self, shape: Sequence[int], *, least: int = 0) -> tuple[int, ...]:
        """A shape of sizes as `size` gives them."""
        return tuple(self.size(n, least=least) for n in shape)

    def array(
        self,
        shape: Sequence[int],
        *,
        low: float = -2.0,
        high: float = 2.0,
        dtype: DType | str | None = None,
    ) -> np.ndarray:
        """Values spread over [low, high); integers if the dtype is an integer dtype."""
        to = self.dtype if dtype is None else as_dtype(dtype)
        if to.kind == "bool":
            return np.asarray(self.rng.integers(0, 2, tuple(shape)), np.bool_)
        if to.is_integer:
            floor = max(low, 0) if to.kind == "unsigned" else low
            whole = self.rng.integers(int(floor), max(int(high), int(floor) + 1), tuple(shape))
            return np.asarray(whole, to.dtype)
        values = self.rng.uniform(low, high, tuple(shape))
        if to.is_complex:
            values = values + 1j * self.rng.uniform(low, high, tuple(shape))
        return np.asarray(values, to.dtype)

    def apart(self, shape: Sequence[int], *, step: float = 0.1) -> np.ndarray:
        """Distinct values at least `step` apart and off zero: no ties for max, sort or abs."""
        count = int(np.prod(tuple(shape)))
        values = (np.arange(count) - count // 2 + 0.5) * step
        return np.asarray(self.rng.permutation(values).reshape(tuple(shape)), self.dtype.dtype)

    def integers(self, shape: Sequence[int], high: int, dtype: DType | str = "int64") -> np.ndarray:
        """Indices in [0, high)."""
        return np.asarray(self.rng.integers(0, high, tuple(shape)), as_dtype(dtype).dtype)


class Checked:
    """What a room says of a public function that has no operation of its own, for the testkit.

    Such a function is made of other operations, so that it needs no rule and no gradient; it is
    checked like an operation all the same.

    Args:
        public: the function that users call.
        samples: inputs on which the testkit checks it.
        reference: the same function on float64 NumPy arrays, or `"module:attribute"` of one; it
            takes what `public` takes.
        traits: of what it computes: its `kind` decides how exact results must be.
        differentiable: whether gradients flow through it.
        name: by which it is known; that of the function if not given.
    """

    __slots__ = ("differentiable", "name", "public", "reference", "samples", "traits")

    def __init__(
        self,
        public: Callable[..., Any],
        *,
        samples: Callable[[Draw], Iterable[Sample]],
        reference: Callable[..., Any] | str,
        traits: Traits = _OPAQUE,
        differentiable: bool = True,
        name: str | None = None,
    ) -> None:
        self.name = public.__name__ if name is None else name
        self.public = public
        self.samples = samples
        self.reference = reference
        self.traits = traits
        self.differentiable = differentiable
        if self.name in FUNCTIONS:
            raise ValueError(f"a function named {self.name!r} is checked already")
        FUNCTIONS[self.name] = self

    def __repr__(self) -> str:
        return f"<function {self.name}>"


FUNCTIONS: dict[str, Checked] = {}
"""Every checked function without an operation by name, in the order of their definition."""

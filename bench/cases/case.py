"""What a case is: one call of a public function, and the same call of PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Make = Callable[[np.random.Generator, tuple[int, ...]], Array]

N = -1
"""Stands in a shape for the size of a case that can be doubled."""

KEYWORDS = {"axis": "dim", "keepdims": "keepdim"}
"""PyTorch's names of arguments."""


@dataclass(frozen=True)
class Input:
    """A tensor argument: its shape, how its values are drawn, whether it needs no gradient."""

    shape: tuple[int, ...]
    make: Make
    constant: bool = False

    def array(self, rng: np.random.Generator, n: int) -> Array:
        return self.make(rng, tuple(n if size == N else size for size in self.shape))


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        name: of Ingle's function, dotted where it lives in a module of `ingle.tensor`; what stands
            after a slash tells two cases of one function apart.
        inputs: the tensors, which are passed first.
        args: what else is passed by position.
        options: keyword arguments; PyTorch gets them under its own names.
        ingle: `(ingle.tensor, *tensors)` instead of a plain call.
        torch: PyTorch's name of the function, or `(torch, *tensors)` instead of a plain call.
        n: the size that `N` stands for.
    """

    name: str
    inputs: tuple[Input, ...] = ()
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    ingle: Callable[..., Any] | None = None
    torch: str | Callable[..., Any] | None = None
    n: int = 1024

    def arrays(self, n: int) -> list[Array]:
        rng = np.random.default_rng(0)
        return [i.array(rng, n) for i in self.inputs]

    def call_ingle(self, library: Any, tensors: list[Any]) -> Any:
        if self.ingle is not None:
            return self.ingle(library, *tensors)
        return attribute(library, self.name.split("/")[0])(*tensors, *self.args, **self.options)

    def call_torch(self, library: Any, tensors: list[Any]) -> Any:
        if callable(self.torch):
            return self.torch(library, *tensors)
        name = self.torch or self.name.split("/")[0]
        functional = getattr(library.nn.functional, name, None)
        options = {KEYWORDS.get(k, k): v for k, v in self.options.items()}
        return (functional or attribute(library, name))(*tensors, *self.args, **options)


def attribute(library: Any, path: str) -> Any:
    """A function by its dotted name."""
    for part in path.split("."):
        library = getattr(library, part)
    return library


def case(
    name: str,
    *inputs: Input,
    ingle: Callable[..., Any] | None = None,
    torch: str | Callable[..., Any] | None = None,
    n: int = 1024,
    args: tuple[Any, ...] = (),
    **options: Any,
) -> Case:
    """A case, with the function's keyword arguments among the others."""
    return Case(name, inputs, args, options, ingle, torch, n)


def cases(names: str, *inputs: Input, **options: Any) -> tuple[Case, ...]:
    """Several functions that both libraries call alike, on the same inputs."""
    return tuple(case(name, *inputs, **options) for name in names.split())


def normal(*shape: int) -> Input:
    """Standard normal numbers."""
    return Input(shape, lambda rng, size: rng.standard_normal(size).astype(np.float32))


def between(low: float, high: float, *shape: int) -> Input:
    """Numbers spread evenly."""
    return Input(shape, lambda rng, size: rng.uniform(low, high, size).astype(np.float32))


def constant(values: Input) -> Input:
    """The same values without a gradient."""
    return replace(values, constant=True)


def integers(high: int, *shape: int) -> Input:
    """Integers in [0, high)."""
    return Input(shape, lambda rng, size: rng.integers(0, high, size))


def flags(*shape: int) -> Input:
    """Bools, half of them true."""
    return Input(shape, lambda rng, size: rng.random(size) < 0.5)


def positive_definite(*shape: int) -> Input:
    """Symmetric matrices with eigenvalues above 1."""

    def make(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        x = rng.standard_normal(size) / size[-1] ** 0.5
        return np.asarray(x @ np.swapaxes(x, -1, -2) + np.eye(size[-1]), np.float32)

    return Input(shape, make)


def fixed(values: Callable[[tuple[int, ...]], Array], *shape: int) -> Input:
    """What a function makes of the shape."""
    return Input(shape, lambda _, size: values(size))

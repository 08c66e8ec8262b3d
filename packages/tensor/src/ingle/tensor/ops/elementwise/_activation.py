"""The constructor of activations, and samples away from their kinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Scalar
from ...dispatch import TensorLike, as_floating, run
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import as_number, elementwise_rule

if TYPE_CHECKING:
    from ...operation import Op
    from ...tensor import Tensor


def apply(op: Op, x: TensorLike, *numbers: float) -> Tensor:
    """Runs an activation on a float tensor (integers are cast) with its parameters."""
    handle = as_floating(x, op.operation.name)
    names = op.operation.tensors[1:]
    given = [as_number(n, op.operation.name, a) for n, a in zip(numbers, names, strict=True)]
    return run(op, (handle, *[Scalar(n, handle.dtype) for n in given]))[0]


def activation(
    name: str,
    public: Callable[..., Any],
    *,
    body: Callable[..., Any],
    vjp: Callable[..., Any],
    reference: Callable[..., Any] | str,
    parameters: tuple[str, ...] = (),
    calls: tuple[tuple[float, ...], ...] = ((),),
    domain: tuple[float, float] = (-4.0, 4.0),
    condition: float = 4.0,
    precision: Any = "keep",
) -> Operation:
    """An elementwise function of a float tensor and some numbers, with a body.

    The samples call it with each of `calls` as its numbers, off the multiples of 1/2, at which
    the kinks are.
    """

    def samples(draw: Draw) -> Iterator[Sample]:
        if not draw.dtype.is_floating:
            return
        for shape in ((), (0,), (3,), (2, 17), (33, 1, 5)):
            for numbers in calls:
                x = off_kinks(draw.array(shape, low=domain[0], high=domain[1]))
                yield Sample((x, *numbers), condition=condition)

    return Operation(
        name,
        tensors=("x", *parameters),
        rule=elementwise_rule(name, ("float",)),
        traits=Traits("elementwise", precision=precision),
        vjp={"x": vjp},
        body=body,
        public=public,
        samples=samples,
        reference=reference,
    )


def off_kinks(x: np.ndarray) -> np.ndarray:
    """Values within 1/16 of a multiple of 1/2 moved by 1/8."""
    near = np.abs(x * 2 - np.round(x.astype(np.float64) * 2)) < 0.125
    return np.asarray(np.where(near, x + x.dtype.type(0.125), x), x.dtype)

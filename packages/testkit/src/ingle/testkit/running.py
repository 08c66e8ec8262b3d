"""Calling an operation's public function on a device, with everything that checks look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ingle.tensor import Gradients, Tensor, asarray, device
from ingle.tensor.device import backend_of
from ingle.tensor.errors import DTypeError
from ingle.tensor.operation import Operation

from .capture import Capture
from .cases import Case
from .derivatives import backward_all, direction
from .trees import fill_arrays, tensors_of

Layout = Callable[[np.ndarray], Tensor]


class DTypeRefusedError(Exception):
    """The operation is not defined for the dtype of the case: there is nothing to check."""


@dataclass(frozen=True, slots=True)
class Run:
    """One call: its results and inputs, and through `capture` the operations that it took."""

    results: list[Tensor]
    inputs: list[Tensor]
    capture: Capture

    @property
    def tracked(self) -> list[Tensor | None]:
        """The inputs that can have gradients; None in the place of the others."""
        return [x if x.dtype.is_inexact else None for x in self.inputs]


def run_case(
    case: Case,
    where: str,
    *,
    expand: Operation | None = None,
    layout: Layout | None = None,
    track: bool = False,
) -> Run:
    """Calls the public function of a case on a device.

    Args:
        case: the call.
        where: the device's name.
        expand: an operation to run through its body.
        layout: makes an input of an array, to lay it out in an unusual way.
        track: whether gradients are recorded for inexact inputs.

    Raises:
        DTypeRefusedError: the function refuses the case's dtype.
    """
    capture = Capture(backend_of(where), expand=expand)
    inputs = [asarray(a, device=where) if layout is None else layout(a) for a in case.arrays]
    if track:
        inputs = [x.require_grad() if x.dtype.is_inexact else x for x in inputs]
    args, kwargs = fill_arrays(case.tree(), [capture.enter(x) for x in inputs])
    assert case.operation.public is not None
    with device(where):
        try:
            result = case.operation.public(*args, **kwargs)
        except DTypeError as error:
            raise DTypeRefusedError from error
    return Run([capture.leave(x) for x in tensors_of(result)], inputs, capture)


@dataclass(frozen=True, slots=True)
class Pullback:
    """A recorded run with random cotangents and the gradients that they give."""

    run: Run
    cotangents: Sequence[np.ndarray | None]
    gradients: Gradients


def pull_back(
    case: Case,
    where: str,
    rng: np.random.Generator,
    *,
    expand: Operation | None = None,
    create_graph: bool = False,
) -> Pullback:
    """Runs a case with recording, and backward from random cotangents for its inexact results."""
    run = run_case(case, where, expand=expand, track=True)
    cotangents = [_cotangent(rng, r) if r.dtype.is_inexact else None for r in run.results]
    return Pullback(
        run, cotangents, backward_all(run.results, cotangents, create_graph=create_graph)
    )


def _cotangent(rng: np.random.Generator, like: Tensor) -> np.ndarray:
    """Random numbers as the device will see them, in double precision."""
    values = direction(rng, np.empty(like.shape, like.dtype.dtype))
    return np.asarray(values.astype(like.dtype.dtype).astype(values.dtype))

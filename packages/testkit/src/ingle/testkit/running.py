"""Calling an operation's public function on a device, with everything that checks look at."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ingle.tensor import Gradients, Tensor, asarray, device
from ingle.tensor.device import backend_of
from ingle.tensor.eager import HostFallbackWarning
from ingle.tensor.errors import BackendError, DTypeError, OutOfMemoryError
from ingle.tensor.operation import Operation

from .capture import Capture
from .cases import Case
from .derivatives import backward_all, direction
from .trees import fill_arrays, tensors_of

FAULTS = (BackendError, OutOfMemoryError)
"""Errors of Ingle by which a device fails. Others refuse a call; these are findings."""

Lay = Callable[[np.ndarray], Tensor]
"""What makes an input of an array."""


@contextmanager
def host_allowed() -> Iterator[None]:
    """No warnings where an operation without kernel and body runs on the host.

    Matrix decompositions are such: a backend is complete without them. `--ingle-table` says which
    operations took that road.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HostFallbackWarning)
        yield


class NothingToCheckError(Exception):
    """A case that a check does not apply to."""


class DTypeRefusedError(NothingToCheckError):
    """The operation is not defined for the dtype of the case."""


@dataclass(frozen=True, slots=True)
class Run:
    """One call: its results and inputs, and through `capture` the operations that it took.

    `tracked` has the inputs that gradients are recorded for, and None in place of the others.
    """

    results: list[Tensor]
    inputs: list[Tensor]
    tracked: list[Tensor | None]
    capture: Capture


def run_case(
    case: Case,
    where: str,
    *,
    expand: Operation | None = None,
    layout: Lay | None = None,
    track: bool = False,
) -> Run:
    """Calls the public function of a case on a device.

    Args:
        case: the call.
        where: the device's name.
        expand: an operation to run through its body.
        layout: makes an input of an array, to lay it out in an unusual way.
        track: whether gradients are recorded for the inputs that have them.

    Raises:
        DTypeRefusedError: the function refuses the case's dtype.
    """
    capture = Capture(backend_of(where), expand=expand)
    inputs = [asarray(a, device=where) if layout is None else layout(a) for a in case.arrays]
    wanted = [track and case.wants_gradient(i) for i in range(len(inputs))]
    inputs = [x.require_grad() if w else x for x, w in zip(inputs, wanted, strict=True)]
    args, kwargs = fill_arrays(case.tree(), [capture.enter(x) for x in inputs])
    assert case.operation.public is not None
    with device(where):
        try:
            result = case.operation.public(*args, **kwargs)
        except DTypeError as error:
            raise DTypeRefusedError from error
        if case.sample.view is not None:
            result = case.sample.view(*tensors_of(result))
    tracked = [x if w else None for x, w in zip(inputs, wanted, strict=True)]
    return Run([capture.leave(x) for x in tensors_of(result)], inputs, tracked, capture)


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

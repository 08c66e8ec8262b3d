"""The checks of one case: what a backend must do for every call of every operation."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from ingle.tensor import Tensor, asarray, device
from ingle.tensor.device import backend_of
from ingle.tensor.errors import DTypeError
from ingle.tensor.operation import Operation

from .capture import Capture
from .cases import Case
from .derivatives import backward_all, check_gradient, direction, gradient_arrays
from .oracle import Oracle, check_values
from .trees import fill_arrays, tensors_of

Layout = Callable[[np.ndarray], Tensor]


class Findings:
    """Collects what went wrong over many cases, to fail once with all of it."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.problems: list[str] = []
        self.checked = 0
        self.first: Exception | None = None

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Notes whatever the block raises under a name."""
        try:
            yield
        except DTypeRefusedError:
            return
        except Exception as error:
            self.first = self.first or error
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = "" if isinstance(error, AssertionError) else f" [{where.name}:{where.lineno}]"
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            self.problems.append(f"{name}: {kind}{error}{place}")
        self.checked += 1

    def close(self) -> None:
        """Raises an `AssertionError` if anything was noted."""
        if self.problems:
            shown = "\n  ".join(self.problems[:12])
            more = f"\n  and {len(self.problems) - 12} more" if len(self.problems) > 12 else ""
            raise AssertionError(f"{self.subject}:\n  {shown}{more}") from self.first


class DTypeRefusedError(Exception):
    """The operation is not defined for the dtype of the case: there is nothing to check."""


def run_case(
    case: Case,
    where: str,
    *,
    expand: Operation | None = None,
    layout: Layout | None = None,
    track: bool = False,
) -> tuple[list[Tensor], list[Tensor], Capture]:
    """Calls the public function on a device; returns its results, its inputs and what it ran.

    Args:
        case: the call.
        where: the device's name.
        expand: an operation to run through its body.
        layout: makes an input of an array, to lay it out in an unusual way.
        track: whether gradients are recorded for inexact inputs.
    """
    capture = Capture(backend_of(where), expand=expand)
    make = layout or (lambda a: asarray(a, device=where))
    inputs = [make(a) for a in case.arrays]
    if track:
        inputs = [x.require_grad() if x.dtype.is_inexact else x for x in inputs]
    args, kwargs = fill_arrays(case.tree(), [capture.enter(x) for x in inputs])
    assert case.operation.public is not None
    with device(where):
        try:
            result = case.operation.public(*args, **kwargs)
        except DTypeError as error:
            raise DTypeRefusedError from error
    return [capture.leave(x) for x in tensors_of(result)], inputs, capture


def check_forward(case: Case, where: str, **options: Any) -> None:
    """Values, shapes and dtypes; the inputs keep their values; a second run gives the same."""
    results, inputs, _ = run_case(case, where, **options)
    for x, array in zip(inputs, case.arrays, strict=True):
        assert _same_bits(x.numpy(), array), "an input was modified"
    check_values(case, results)
    again, _, _ = run_case(case, where, **options)
    for first, second in zip(results, again, strict=True):
        assert _same_bits(first.numpy(), second.numpy()), "a second run gave other bits"


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def _track_gradients(
    case: Case, where: str, rng: np.random.Generator, expand: Operation | None, graph: bool = False
) -> tuple[list[Tensor], list[np.ndarray | None], list[Tensor | None], Any]:
    results, inputs, _ = run_case(case, where, expand=expand, track=True)
    cotangents = [
        direction(rng, np.empty(r.shape, r.dtype.dtype)) if r.dtype.is_inexact else None
        for r in results
    ]
    tracked = [x if x.dtype.is_inexact else None for x in inputs]
    return results, cotangents, tracked, backward_all(results, cotangents, create_graph=graph)


def check_first_order(case: Case, where: str, expand: Operation | None = None) -> None:
    """Gradients by every inexact input, and the values of the recorded run."""
    rng = np.random.default_rng(7)
    results, cotangents, tracked, grads = _track_gradients(case, where, rng, expand)
    check_values(case, [r.detach() for r in results])
    # The cotangent that the device saw was rounded to its dtype.
    seen = [
        None if c is None else c.astype(r.dtype.dtype).astype(c.dtype)
        for c, r in zip(cotangents, results, strict=True)
    ]
    found = gradient_arrays(grads, tracked)
    check_gradient(case, found, seen, [r.dtype for r in results], rng)


def check_second_order(case: Case, where: str) -> None:
    """The gradient of a directional derivative against differences of first gradients."""
    rng = np.random.default_rng(11)
    results, cotangents, tracked, grads = _track_gradients(case, where, rng, None, graph=True)
    weights = [None if x is None else direction(rng, np.empty(x.shape)) for x in tracked]
    first = [None if x is None else grads.get(x) for x in tracked]
    pairs = [(g, w) for g, w in zip(first, weights, strict=True) if g is not None]
    second = backward_all([g for g, _ in pairs], [w for _, w in pairs])
    found = gradient_arrays(second, tracked)
    along = [None if g is None else direction(rng, g) for g in found]

    def projected(step: float) -> float:
        moved = [a if d is None else a + step * d for a, d in zip(case.arrays, along, strict=True)]
        shifted, inputs, _ = run_case(case, where, track=True, layout=_feed(moved, where))
        wanted = [x if x.dtype.is_inexact else None for x in inputs]
        values = gradient_arrays(backward_all(shifted, cotangents), wanted)
        return sum(
            float(np.sum(v * w)) for v, w in zip(values, weights, strict=True)
            if v is not None and w is not None
        )  # fmt: skip

    step = 6e-6
    expected = (projected(step) - projected(-step)) / (2 * step)
    terms = [(g, d) for g, d in zip(found, along, strict=True) if g is not None and d is not None]
    got = sum(float(np.sum(g * d)) for g, d in terms)
    scale = abs(expected) + sum(float(np.sum(np.abs(g * d))) for g, d in terms) + 1.0
    assert abs(got - expected) <= 1e-5 * case.sample.condition * scale, (
        f"the second derivative along random directions is {got:.8g}, differences of the first "
        f"say {expected:.8g}"
    )


def _feed(arrays: Sequence[np.ndarray], where: str) -> Layout:
    rest = iter(arrays)
    return lambda _: asarray(next(rest), device=where)


def check_layouts(case: Case, where: str) -> None:
    """The same result for inputs that are views with unusual strides."""
    for name, layout in LAYOUTS.items():
        results, inputs, _ = run_case(case, where, layout=lambda a, f=layout: f(a, where))  # type: ignore[misc]
        try:
            check_values(case, results, [x.numpy() for x in inputs])
        except AssertionError as error:
            raise AssertionError(f"with {name} inputs: {error}") from None


def permuted(array: np.ndarray, where: str) -> Tensor:
    """The array, stored with its axes reversed."""
    from ingle.tensor import permute_dims

    axes = tuple(reversed(range(array.ndim)))
    return permute_dims(asarray(array.transpose(axes), device=where), axes)


def sliced(array: np.ndarray, where: str) -> Tensor:
    """The array as every other element, backwards, of a larger one."""
    if not array.ndim:
        return asarray(np.stack([array, array]), device=where)[1]
    wide = np.repeat(array, 2, axis=-1)[..., ::-1]
    return asarray(wide, device=where)[..., ::-2]


LAYOUTS: dict[str, Callable[[np.ndarray, str], Tensor]] = {
    "permuted": permuted, "sliced": sliced,
}  # fmt: skip


def check_broadcast_layout(case: Case, where: str) -> None:
    """The same for inputs that are one row, repeated without a copy."""
    from ingle.tensor import broadcast_to

    def repeated(array: np.ndarray) -> Tensor:
        if not array.ndim or not array.shape[0]:
            return asarray(array, device=where)
        return broadcast_to(asarray(array[:1], device=where), array.shape)

    results, inputs, _ = run_case(case, where, layout=repeated)
    check_values(case, results, [x.numpy() for x in inputs])


__all__ = [
    "Findings", "Oracle", "check_broadcast_layout", "check_first_order", "check_forward",
    "check_layouts", "check_second_order", "run_case",
]  # fmt: skip

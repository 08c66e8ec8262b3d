"""Launches of one kernel on several operands, as one launch: an optimizer has one for each of its
parameters.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.fusion.device import Launch, WholeCall
from ingle.fusion.device.cuda import NEST, at_once, launches_beside, most_at_once, render_many
from ingle.fusion.device.executables import (
    TouchedBytes,
    apart,
    apart_in_plan,
    compiled,
    neighbours,
    spans_of,
)
from ingle.fusion.device.kernels import NestCall
from ingle.tensor.callers import warn
from ingle.tensor.errors import BackendError

if TYPE_CHECKING:
    from ..backend import CudaBackend
    from .step_builder import KernelStep, Step

MANY = "many"
_NEVER = 1 << 62
"""The first block of a launch that is none."""


class JoinedStep(NamedTuple):
    """Launches that are one where their memory is apart.

    Attributes:
        steps: what it is in the place of.
        members: these as the joined kernel takes them.
        kernel: compiled, of all of them.
        places: how many launches it takes at most.
        spans: what each of the steps touches of its operands.
    """

    steps: tuple[KernelStep, ...]
    members: tuple[KernelStep, ...]
    kernel: Any
    places: int
    spans: tuple[tuple[TouchedBytes, ...], ...]

    def is_apart(self, buffers: Sequence[int]) -> bool:
        """Whether none of the steps writes what another one reads or writes: memory is given to
        the next value as soon as its last reader is in the stream, be it the step before."""
        places = [[buffers[n] + offset for n, offset in s.pointers] for s in self.steps]
        return apart(places, self.spans)

    def together(self, given: Sequence[Any]) -> tuple[Any, int]:
        """The argument of the kernel, of those of the steps, and how many blocks it has."""
        ends = list(accumulate([step.blocks for step in self.members]))
        missing = self.places - len(given)
        size = self.places * (1 + len(given[0]))
        firsts = [0, *ends[:-1], *[_NEVER] * missing]
        return (ctypes.c_int64 * size)(*firsts, *[n for one in given for n in one]), ends[-1]


def with_joined(
    backend: CudaBackend, launches: Sequence[Launch], parts: Sequence[list[Step]]
) -> list[Step | JoinedStep]:
    """The steps of launches, neighbours of one small kernel together.

    Args:
        parts: the steps of each launch.
    """
    found: list[Step | JoinedStep] = []
    at = 0
    while at < len(launches):
        call = launches[at].call
        if isinstance(call, WholeCall):
            most, end = _alike(launches, parts, at)
        else:
            most = at_once(call.nest) if isinstance(call, NestCall) else 1
            end = neighbours(launches, at, most)
        steps: list[Any] = [step for part in parts[at:end] for step in part]
        joined = _joined(backend, launches[at:end], steps, most) if len(steps) > 1 else None
        found += steps if joined is None or end - at == 1 else [joined]
        at = end
    return found


def _alike(launches: Sequence[Launch], parts: Sequence[list[Step]], first: int) -> tuple[int, int]:
    """How many launches of one kernel by hand may be one at most, and behind the last of those from
    `first` on that meet none of the others."""
    kernel, end = _alone(parts[first]), first + 1
    if kernel is None:
        return 1, end
    most = most_at_once(len(kernel.given))
    while end < min(len(launches), first + most):
        other = _alone(parts[end]) if isinstance(launches[end].call, WholeCall) else None
        alike = other is not None and (kernel.source, kernel.threads) == (
            other.source, other.threads,
        )  # fmt: skip
        if not alike or not apart_in_plan(launches[first : end + 1]):
            break
        end += 1
    return most, end


def _alone(steps: Sequence[Step]) -> KernelStep | None:
    """The step of a launch that has one, which may be a member of a kernel of several."""
    (step,) = steps if len(steps) == 1 else (None,)
    return step if getattr(step, "joins", False) else None  # type: ignore[return-value]


def _joined(
    backend: CudaBackend, launches: Sequence[Launch], steps: list[KernelStep], most: int
) -> JoinedStep | None:
    """The launches as one; None, with a warning, if their kernel cannot be compiled."""
    nests = [x.call for x in launches if isinstance(x.call, NestCall)]
    calls = [x.call for x in launches if isinstance(x.call, NestCall | WholeCall)]
    if len(calls) != len(steps):  # some are of no elements
        return None
    members = _beside(backend, nests, steps) if nests else steps
    if len({(step.source, step.threads) for step in members}) > 1:
        return None  # they are of sizes for which there are several kernels
    places_of = [x.pointers for x in launches]
    spans = tuple([spans_of(call, of) for call, of in zip(calls, places_of, strict=True)])
    places = min(1 << (len(steps) - 1).bit_length(), most)  # few kernels for all numbers
    source = render_many(members[0].source, MANY, places, members[0].threads)
    try:
        kernel = compiled(backend, launches[0], source, MANY)
    except BackendError as error:
        warn(
            f"{backend.device}: {len(steps)} kernels are launched one by one, since their joined "
            f"kernel failed: {error}; please report it (INGLE_CUDA_JOINED=0 does without)",
            RuntimeWarning,
        )
        return None
    return JoinedStep(tuple(steps), tuple(members), kernel, places, spans)


def _beside(
    backend: CudaBackend, calls: Sequence[NestCall], steps: list[KernelStep]
) -> list[KernelStep]:
    """The steps as of one source that suits all of them at the same time, if there is such."""
    numbers = [[*call.sizes, *[s for of in call.strides for s in of]] for call in calls]
    found = launches_beside(calls[0].nest, NEST, numbers, backend.limits.processors)
    if found is None:
        return steps
    source, grids = found
    made = []
    for step, grid in zip(steps, grids, strict=True):
        given = type(step.given).from_buffer_copy(step.given)
        given[len(given) - 1] = grid.grain
        made.append(step._replace(
            given=given, blocks=grid.blocks, threads=grid.threads, source=source,
            early=grid.early,
        ))  # fmt: skip
    return made

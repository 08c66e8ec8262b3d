"""Regular pieces of a tensor: read with slice, replaced with slice_update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...call_steps import CallStep, same_steps
from ...contract import Aval, Handle, Scalar, Shape
from ...dispatch import TensorLike, handle_of, run, wrap
from ...dtypes import int64
from ...errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from ...followed import is_followed
from ...operation import Op, Operation, Traits
from ...prepared import prepared_calls
from ...sample import Draw, Sample
from .._batching import slice_batch, update_batch
from .._rules import as_int, as_ints, as_shape
from .shapes import MOVEMENT, RESHAPE, reshaped

if TYPE_CHECKING:
    from ...tensor import Tensor

Start = Any  # an integer or a 0-d integer tensor


def slice(
    x: TensorLike,
    starts: Sequence[Start],
    sizes: Sequence[int],
    steps: Sequence[int] | None = None,
    /,
) -> Tensor:
    """The elements at `start`, `start + step`, … of each axis, `size` of them.

    The starts may change from call to call at no cost; sizes and steps are part of the operation.

    Args:
        x: a tensor.
        starts: for each axis the first index, a number or a 0-d integer tensor; negative ones
            count from the end.
        sizes: for each axis how many elements to take.
        steps: for each axis the distance between them, 1 if not given; negative ones go backwards.

    Raises:
        OutOfRangeError: the piece does not lie inside of the tensor.

    >>> import ingle.tensor as it
    >>> it.slice(it.arange(10), (7,), (3,), (-2,)).tolist()
    [7, 5, 3]
    """
    handle = handle_of(x, "slice")
    count = as_shape(sizes, "slice", "sizes")
    stride = _steps("slice", steps, handle.shape)
    first = _starts("slice", starts, handle.shape, count, stride)
    if count == handle.shape and all(s == 1 for s in stride):
        return wrap(handle)
    return run(_op(count, stride), (handle, *first))[0]


def _slice_rule(x: Aval, *starts: Aval, sizes: Shape, steps: Shape) -> Aval:
    _check_sizes("slice", x.shape, sizes, steps)
    return Aval(sizes, x.dtype)


def _slice_vjp(g: Tensor, starts: tuple[Start, ...], x_aval: Aval, steps: Shape) -> Tensor:
    return slice_update(zeros_of(x_aval, g), g, starts, steps)


def _slice_reference(x: Any, starts: Any, sizes: Any, steps: Any = None) -> Any:
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        step = 1 if steps is None else steps[axis]
        x = np.take(x, [start + i * step for i in range(size)], axis=axis)
    return x


def _slice_samples(draw: Draw) -> Iterator[Sample]:
    m, n = draw.size(5, least=4), draw.size(8, least=6)
    yield Sample((draw.array((m, n)), (1, 2), (3, n - 3)))
    yield Sample((draw.array((m, n)), (m - 1, 1), (m, 3), (-1, 2)))
    yield Sample((draw.array((draw.size(3, least=2), 0, 2)), (0, 0, 1), (2, 0, 1)))
    yield Sample((draw.array((draw.size(17, least=3),)), (-3,), (2,)))


SLICE = Operation(
    "slice",
    tensors=("x", "starts"),
    variadic=True,
    statics=("sizes", "steps"),
    rule=_slice_rule,
    traits=replace(MOVEMENT, starts=1, access="slice"),
    vjp={"x": _slice_vjp},
    batch=slice_batch,
    public=slice,
    samples=_slice_samples,
    reference=_slice_reference,
)


def slice_update(
    x: TensorLike,
    y: TensorLike,
    starts: Sequence[Start],
    steps: Sequence[int] | None = None,
    /,
) -> Tensor:
    """`x` with the piece that `slice(x, starts, y.shape, steps)` reads replaced by `y`.

    Raises:
        OutOfRangeError: the piece does not lie inside of `x`.

    >>> import ingle.tensor as it
    >>> it.slice_update(it.zeros(4), it.ones(2), (1,)).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    a, b = handle_of(x, "slice_update"), handle_of(y, "slice_update", "y")
    stride = _steps("slice_update", steps, a.shape)
    first = _starts("slice_update", starts, a.shape, b.shape, stride)
    op = _update_op(len(stride)) if steps is None else SLICE_UPDATE.op(steps=stride)
    return run(op, (a, b, *first))[0]


@lru_cache(maxsize=64)
def _update_op(axes: int) -> Op:
    return SLICE_UPDATE.op(steps=(1,) * axes)


def _update_rule(x: Aval, y: Aval, *starts: Aval, steps: Shape) -> Aval:
    if y.dtype is not x.dtype:
        raise DTypeError(
            f"slice_update: y must have the dtype {x.dtype} of x, got {y.dtype}; cast it first "
            "with y.astype(x.dtype)"
        )
    _check_sizes("slice_update", x.shape, y.shape, steps)
    return x


def _update_vjp_x(g: Tensor, starts: tuple[Start, ...], y_aval: Aval, steps: Shape) -> Tensor:
    return slice_update(g, zeros_of(y_aval, g), starts, steps)


def _update_vjp_y(g: Tensor, starts: tuple[Start, ...], y_aval: Aval, steps: Shape) -> Tensor:
    return slice(g, starts, y_aval.shape, steps)


def _update_reference(x: Any, y: Any, starts: Any, steps: Any = None) -> Any:
    out = np.array(x)
    strides = steps or [1] * out.ndim
    places = [
        [s + i * t for i in range(n)] for s, n, t in zip(starts, y.shape, strides, strict=True)
    ]
    out[np.ix_(*places)] = y
    return out


def _update_samples(draw: Draw) -> Iterator[Sample]:
    m, n = draw.size(5, least=4), draw.size(8, least=6)
    yield Sample((draw.array((m, n)), draw.array((3, n - 3)), (1, 2)))
    yield Sample((draw.array((m, n)), draw.array((m, 3)), (m - 1, 1), (-1, 2)))
    yield Sample((draw.array((draw.size(3, least=1),)), draw.array((0,)), (1,)))


SLICE_UPDATE = Operation(
    "slice_update",
    tensors=("x", "y", "starts"),
    variadic=True,
    statics=("steps",),
    rule=_update_rule,
    traits=Traits("movement", family="scatter", starts=2, access="update"),
    vjp={"x": _update_vjp_x, "y": _update_vjp_y},
    batch=update_batch,
    public=slice_update,
    samples=_update_samples,
    reference=_update_reference,
)


def slice_axis(x: TensorLike, axis: int, start: int, size: int, step: int = 1) -> Tensor:
    """A slice along one axis, all of the others; it has to lie inside."""
    handle = handle_of(x, "slice")
    starts, sizes, steps = [0] * len(handle.shape), list(handle.shape), [1] * len(handle.shape)
    starts[axis], sizes[axis], steps[axis] = start, size, step
    return sliced(handle, starts, tuple(sizes), tuple(steps))


def sliced(handle: Handle, starts: Sequence[int], sizes: Shape, steps: Shape) -> Tensor:
    """A slice that is known to lie inside, from starts that count from 0."""
    if sizes == handle.shape and min(steps, default=1) == 1 == max(steps, default=1):
        return wrap(handle)
    return run(_op(sizes, steps), (handle, *[scalar_start(s) for s in starts]))[0]


def piece_of(
    handle: Handle, starts: Sequence[int], sizes: Shape, steps: Shape, shape: Shape
) -> Tensor:
    """A slice that is known to lie inside, in another shape: without axes of size 1, say."""
    calls = prepared_calls(handle.backend)
    whole = sizes == handle.shape and steps.count(1) == len(steps)
    if calls is None or (whole and shape == sizes):
        piece = sliced(handle, starts, sizes, steps)
        return piece if shape == sizes else reshaped(piece._handle, shape)
    key = (piece_of, handle.shape, handle.dtype, sizes, steps, shape)
    known = calls.known.get(key) or calls.former(key)
    if known is None:
        count = 1 if whole else 1 + len(sizes)
        taken = [] if whole else [CallStep(_op(sizes, steps), tuple(range(count)))]
        if shape != sizes:
            taken.append(CallStep(RESHAPE.op(shape=shape), (count if taken else 0,)))
        last = count + len(taken) - 1
        known = same_steps(handle.backend, [handle], [], [], taken, [last], True)
        calls.keep(key, known)
    given = [handle] if whole else [handle, *map(scalar_start, starts)]
    return known.run(handle.backend, given)  # type: ignore[return-value]


@lru_cache(maxsize=4096)
def _op(sizes: Shape, steps: Shape) -> Op:
    return SLICE.op(sizes=sizes, steps=steps)


_SMALL = [Scalar(i, int64) for i in range(64)]


def scalar_start(start: int) -> Scalar:
    """A start as an input; one that a recording follows must stay what it is."""
    return _SMALL[start] if type(start) is int and start < 64 else Scalar(start, int64)


def _steps(name: str, steps: Sequence[int] | None, shape: Shape) -> Shape:
    if steps is None:
        return (1,) * len(shape)
    found = as_ints(steps, name, "steps")
    if 0 in found or len(found) != len(shape):
        raise ArgumentError(
            f"{name}: steps={found} must give a step other than 0 for each axis of shape {shape}"
        )
    return found


def _starts(
    name: str, starts: Sequence[Start], shape: Shape, sizes: Shape, steps: Shape
) -> list[Handle | Scalar]:
    if not isinstance(starts, (list, tuple)) or not len(starts) == len(sizes) == len(shape):
        raise ShapeError(
            f"{name}: starts and sizes must have a number for each of the {len(shape)} axes of x "
            f"{shape}, got {starts!r:.60} and {sizes}"
        )
    found: list[Handle | Scalar] = []
    for axis, start in enumerate(starts):
        if type(start) is int and 0 <= start <= shape[axis] - sizes[axis] and steps[axis] == 1:
            found.append(scalar_start(start))
            continue
        if hasattr(start, "_handle") or hasattr(type(start), "__ingle_tensor__"):
            found.append(_dynamic_start(name, axis, start))
            continue
        followed = isinstance(start, int) and is_followed(start)
        number = start if followed else as_int(start, name, f"starts[{axis}]")
        first = checked_start(name, axis, number, shape[axis], sizes[axis], steps[axis])
        found.append(scalar_start(first))
    return found


def _dynamic_start(name: str, axis: int, start: Start) -> Handle:
    handle = handle_of(start, name, f"starts[{axis}]")
    if handle.shape or not handle.dtype.is_integer:
        raise DTypeError(
            f"{name}: starts[{axis}] must be an integer or a 0-d integer tensor, got "
            f"{handle.dtype} of shape {handle.shape}"
        )
    return handle


def checked_start(name: str, axis: int, start: int, length: int, size: int, step: int) -> int:
    """A start as a number from 0; raises unless all of the piece lies inside of the axis."""
    first = start + length if start < 0 else start
    last = first + (size - 1) * step
    inside = 0 <= first < length and 0 <= last < length if size else 0 <= first <= length
    if not inside:
        raise OutOfRangeError(
            f"{name}: {size} elements from starts[{axis}]={start} in steps of {step} do not lie "
            f"inside of axis {axis} of size {length}"
        )
    return first


def _check_sizes(name: str, shape: Shape, sizes: Shape, steps: Shape) -> None:
    for axis, (length, size, step) in enumerate(zip(shape, sizes, steps, strict=True)):
        if size and (size - 1) * abs(step) >= length:
            raise ShapeError(
                f"{name}: {size} elements in steps of {step} do not fit into axis {axis} of x, of "
                f"size {length}"
            )


def zeros_of(aval: Aval, like: Tensor) -> Tensor:
    """Zeros of a shape and dtype on another tensor's device, for gradient rules: one, broadcast."""
    from ..creation.filled import zeros
    from .shapes import broadcast_to

    return broadcast_to(zeros((), dtype=aval.dtype, device=like.device), aval.shape)

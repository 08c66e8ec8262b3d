"""Steps of random programs that put values together from pieces, and write into parts of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from .programs import World


class Step(NamedTuple):
    """A call on the world and earlier values, as a program has it.

    Attributes:
        text, function: as in `Call`.
        args: numbers of earlier values.
    """

    text: str
    function: Callable[..., Tensor]
    args: tuple[int, ...]


def piece_step(
    rng: np.random.Generator, values: Sequence[Tensor], x: int, y: int
) -> Step | None:  # fmt: skip
    """A step on value `x`, and maybe `y`; None where it does not fit."""
    if not values[x].ndim or not values[x].size:
        return None
    kinds = (_concat, _stack, _pad, _roll, _update, _cut, _scatter, _scatter)
    return kinds[int(rng.integers(len(kinds)))](rng, values, x, y)


def _axis(rng: np.random.Generator, x: Tensor) -> int:
    return int(rng.integers(x.ndim))


def _concat(rng: np.random.Generator, values: Sequence[Tensor], x: int, y: int) -> Step:
    axis = _axis(rng, values[x])
    rest = [v.shape[:axis] + v.shape[axis + 1 :] for v in (values[x], values[y])]
    if values[x].ndim != values[y].ndim or rest[0] != rest[1]:
        y = x
    if rng.random() < 0.5:
        return Step(
            f"it.concat([{{0}}, {{1}}], axis={axis})",
            lambda world, a, b: it.concat([a, b], axis=axis),
            (x, y),
        )
    return Step(
        f"it.concat([-{{1}}, {{0}}, {{0}} + {{0}}], axis={axis})",
        lambda world, a, b: it.concat([-b, a, a + a], axis=axis),
        (x, y),
    )


def _stack(rng: np.random.Generator, values: Sequence[Tensor], x: int, y: int) -> Step:
    axis = int(rng.integers(values[x].ndim + 1))
    return Step(
        f"it.stack([{{0}}, -{{0}}], axis={axis})",
        lambda world, a: it.stack([a, -a], axis=axis),
        (x,),
    )


_MODES: tuple[Literal["constant", "edge", "reflect", "circular"], ...] = (
    "constant", "edge", "reflect", "circular",
)  # fmt: skip


def _pad(rng: np.random.Generator, values: Sequence[Tensor], x: int, y: int) -> Step:
    mode = _MODES[int(rng.integers(len(_MODES)))]
    most = min(values[x].shape) if mode == "circular" else min(values[x].shape) - 1
    most = 3 if mode in ("constant", "edge") else min(most, 3)
    widths = tuple([tuple(map(int, rng.integers(0, most + 1, 2))) for _ in values[x].shape])
    return Step(
        f"it.pad({{0}}, {widths}, mode={mode!r})",
        lambda world, a: it.pad(a, widths, mode=mode),
        (x,),
    )


def _roll(rng: np.random.Generator, values: Sequence[Tensor], x: int, y: int) -> Step:
    axis, by = _axis(rng, values[x]), int(rng.integers(-4, 5))
    return Step(
        f"it.roll({{0}}, {by}, axis={axis})", lambda world, a: it.roll(a, by, axis=axis), (x,)
    )


class _Box(NamedTuple):
    """A piece that lies inside.

    Attributes:
        low, span: for each axis the first place where it may begin, and how many there are.
        sizes, steps: of the piece.
    """

    low: tuple[int, ...]
    span: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


def _box(rng: np.random.Generator, shape: Sequence[int]) -> _Box:
    each = []
    for n in shape:
        step = int(rng.choice([1, 1, 1, 2, -1]))
        size = int(rng.integers(1, (n - 1) // abs(step) + 2))
        reach = (size - 1) * step
        low = max(0, -reach)
        each.append((low, n - max(0, reach) - low, size, step))
    return _Box(*zip(*each, strict=True))


def _starts(
    rng: np.random.Generator, box: _Box
) -> tuple[str, Callable[[World], tuple[Any, ...]]]:  # fmt: skip
    """Starts as text and as values: numbers, or one of them a tensor or a number that changes."""
    kind, axis = str(rng.choice(["number", "tensor", "count"])), int(rng.integers(len(box.low)))
    first = [int(rng.integers(low, low + n)) for low, n in zip(box.low, box.span, strict=True)]
    before, after = tuple(first[:axis]), tuple(first[axis + 1 :])
    at, low, span = first[axis], box.low[axis], box.span[axis]
    shown = [str(s) for s in first]
    if kind == "tensor":
        shown[axis] = f"it.asarray({at})"
        return _tuple(shown), lambda world: (*before, it.asarray(at), *after)
    if kind == "count":
        shown[axis] = f"{low} + count.value % {span}"
        return _tuple(shown), lambda world: (*before, low + world.count.value % span, *after)
    return _tuple(shown), lambda world: tuple(first)


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)},)"


def _update(rng: np.random.Generator, values: Sequence[Tensor], x: int, y: int) -> Step:
    box = _box(rng, values[x].shape)
    shown, found = _starts(rng, box)
    zeros, (_, _, sizes, steps) = (0,) * len(box.sizes), box
    return Step(
        f"it.slice_update({{0}}, -it.slice({{0}}, {zeros}, {sizes}), {shown}, {steps})",
        lambda world, a: it.slice_update(a, -it.slice(a, zeros, sizes), found(world), steps),
        (x,),
    )


def _cut(rng: np.random.Generator, values: Sequence[Tensor], x: int, y: int) -> Step:
    box = _box(rng, values[x].shape)
    shown, found = _starts(rng, box)
    return Step(
        f"it.slice({{0}}, {shown}, {box.sizes}, {box.steps})",
        lambda world, a: it.slice(a, found(world), box.sizes, box.steps),
        (x,),
    )


def _scatter(rng: np.random.Generator, values: Sequence[Tensor], x: int, y: int) -> Step:
    axis = _axis(rng, values[x])
    size = values[x].shape[axis]
    shape = tuple(int(n) for n in rng.choice([1, 2, 5, 8], int(rng.integers(0, 3))))
    targets, taken = (rng.integers(-size, size, shape).tolist() for _ in range(2))
    name = str(rng.choice(["scatter_add", "scatter_set"]))
    function = getattr(it, name)

    def run(world: World, a: Tensor) -> Tensor:
        updates = it.take(a, it.asarray(taken, dtype="int64"), axis=axis)
        made: Tensor = function(a, it.asarray(targets, dtype="int64"), -updates, axis=axis)
        return made

    def spelled(places: Any) -> str:
        return f"it.asarray({places}, dtype='int64')"

    return Step(
        f"it.{name}({{0}}, {spelled(targets)}, -it.take({{0}}, {spelled(taken)}, axis={axis}), "
        f"axis={axis})",
        run,
        (x,),
    )

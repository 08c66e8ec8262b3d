"""Stacks, cuts, turns, windows, combinations: elements of tensors in other places."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import ops
from ..operation import Traits
from ..sample import Checked, Draw, Sample

_MOVEMENT = Traits("movement")


def _moves(public: Any, samples: Any, reference: Any, **more: Any) -> None:
    Checked(public, samples=samples, reference=reference, traits=_MOVEMENT, **more)


def _stacks(*shapes: tuple[tuple[int, ...], ...]) -> Callable[[Draw], Iterator[Sample]]:
    def samples(draw: Draw) -> Iterator[Sample]:
        for each in shapes:
            yield Sample(([draw.array(s) for s in each],))

    return samples


_moves(ops.hstack, _stacks(((2,), (3,)), ((2, 3), (2, 1)), ((), ())), np.hstack)
_moves(ops.vstack, _stacks(((3,), (3,)), ((2, 3), (3,)), ((0, 2), (1, 2))), np.vstack)
_moves(ops.dstack, _stacks(((3,), (3,)), ((2, 3), (2, 3)), ((2, 3, 1), (2, 3, 2))), np.dstack)
_moves(ops.column_stack, _stacks(((3,), (3,)), ((3, 2), (3,))), np.column_stack)


def _cuts(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((8, 2)), 3))
    yield Sample((draw.array((2, 5)), [1, 3, 9]), {"axis": 1})
    yield Sample((draw.array((5,)), [3, -3]))


_moves(
    ops.tensor_split, _cuts, lambda x, places, axis=0: tuple(np.array_split(x, places, axis=axis))
)


def _turns(draw: Draw) -> Iterator[Sample]:
    for k in (1, -2, 3, 4):
        yield Sample((draw.array((2, 3)), k))
    yield Sample((draw.array((2, 3, 5)),), {"axes": (2, 0)})


_moves(ops.rot90, _turns, np.rot90)


def _pairs(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind != "bool":
        yield Sample((draw.array((2, 3)), draw.array((3, 2))))
        yield Sample((draw.array((2,)), draw.array((2, 1, 3))))
        yield Sample((draw.array((0, 2)), draw.array(())))


Checked(ops.kron, samples=_pairs, reference=np.kron, traits=Traits("contraction"))


def _strides(draw: Draw) -> Iterator[Sample]:
    x = draw.array((17,))
    yield Sample((x, (3, 2), (2, 3)), label="windows")
    yield Sample((x, (2, 3, 2), (0, -2, 1), 5))
    yield Sample((draw.array((17, 1)), (0, 3), (1, 1)))


def _strided(x: Any, size: Any, strides: Any, offset: int = 0) -> Any:
    flat, out = x.reshape(-1), np.zeros(size, x.dtype)
    for place in np.ndindex(*size):
        out[place] = flat[offset + sum(i * s for i, s in zip(place, strides, strict=True))]
    return out


_moves(ops.as_strided, _strides, _strided)


def _windows(draw: Draw) -> Iterator[Sample]:
    n, m = draw.size(8, least=3), draw.size(5, least=2)
    yield Sample((draw.array((n,)), 3))
    yield Sample((draw.array((n, m)), (2, 2)), {"step": (2, 1)})
    yield Sample((draw.array((2, n)), 3), {"axis": -1, "step": 2})


def _slid(x: Any, window: Any, axis: Any = None, step: Any = 1) -> Any:
    out = np.lib.stride_tricks.sliding_window_view(x, window, axis=axis)
    axes = range(x.ndim) if axis is None else [axis % x.ndim]
    steps = [step] * x.ndim if isinstance(step, int) else step
    for a, by in zip(axes, steps, strict=False):
        out = np.take(out, range(0, out.shape[a], by), axis=a)
    return out


_moves(ops.sliding_window_view, _windows, _slid)


def _scattered(draw: Draw) -> Iterator[Sample]:
    n = draw.size(5)
    yield Sample((draw.array((3, n)), draw.array((n,), dtype="bool"), draw.array((3 * n,))))
    mask = np.zeros((2, 3), np.bool_)
    yield Sample((draw.array((2, 3)), mask, draw.array((0,))))


def _masked(x: Any, mask: Any, source: Any) -> Any:
    out, places = x.copy(), np.broadcast_to(mask, x.shape)
    out[places] = source.reshape(-1)[: np.count_nonzero(places)]
    return out


_moves(ops.masked_scatter, _scattered, _masked)


def _lists(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((2,)), draw.array((3,)), draw.array((2,))))
    yield Sample((draw.array((3,)), draw.array((0,))))


_moves(
    ops.cartesian_prod,
    _lists,
    lambda *xs: np.stack([g.reshape(-1) for g in np.meshgrid(*xs, indexing="ij")], axis=1),
)


def _choices(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((5,)),))
    yield Sample((draw.array((3,)), 3), {"with_replacement": True})
    yield Sample((draw.array((2,)), 3))


def _chosen(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(x.tolist(), r))
    return np.array(rows, x.dtype).reshape(len(rows), r)


_moves(ops.combinations, _choices, _chosen)


def _positions(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.integers((2, 5), 30), (2, 3, 5)), gradient=False, exact=True)
    yield Sample((draw.integers((3,), 8), (8,)), gradient=False, exact=True)


_moves(ops.unravel_index, _positions, np.unravel_index, differentiable=False)


def _two(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_inexact:
        n, a, b, o = draw.shape((2, 3, 5, 2))
        x, y, w = draw.array((n, a)), draw.array((n, b)), draw.array((o, a, b))
        yield Sample((x, y, w, draw.array((o,))), condition=32, magnitude=4.0)
        yield Sample((draw.array((a,)), draw.array((b,)), w), condition=32, magnitude=4.0)


def _bilinear(x1: Any, x2: Any, weight: Any, bias: Any = 0) -> Any:
    return np.einsum("...i,oij,...j->...o", x1, weight, x2) + bias


Checked(ops.bilinear, samples=_two, reference=_bilinear, traits=Traits("contraction"))

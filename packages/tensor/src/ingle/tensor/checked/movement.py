"""Functions that put elements elsewhere: diagonals, rolls, tiles, pieces, shuffles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import ops
from ..operation import Traits
from ..ops.signals.frequencies import fftshift, ifftshift
from ..sample import Checked, Draw, Sample

_MOVEMENT = Traits("movement")
Samples = Callable[[Draw], Iterable[Sample]]


def _moves(public: Callable[..., Any], samples: Samples, reference: Callable[..., Any]) -> Checked:
    return Checked(public, samples=samples, reference=reference, traits=_MOVEMENT)


def _diag(draw: Draw) -> Iterator[Sample]:
    for shape, offset in (((3,), 0), ((5,), -2), ((3, 5), 1), ((0,), 1)):
        yield Sample((draw.array(shape),), {"offset": offset})


_moves(ops.diag, _diag, lambda x, offset: np.diag(x, offset))


def _embedded(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((3,)),))
    yield Sample((draw.array((2, 3)),), {"offset": 1})
    yield Sample((draw.array((2, 5, 3)),), {"offset": -2, "axis1": 0, "axis2": 2})
    yield Sample((draw.array((2, 0)),), {"offset": 1})


def _embedded_reference(x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Any:
    out = np.zeros((*x.shape[:-1], *[x.shape[-1] + abs(offset)] * 2), x.dtype)
    for i in range(x.shape[-1]):
        out[..., i + max(-offset, 0), i + max(offset, 0)] = x[..., i]
    return np.moveaxis(out, (-2, -1), (axis1, axis2))


_moves(ops.diag_embed, _embedded, _embedded_reference)


def _blocks(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((2, 3)), draw.array((3, 1))))
    yield Sample((draw.array((2, 2)), draw.array((3,)), draw.array(())))
    yield Sample((draw.array((0, 3)), draw.array((2, 2))))


def _blocks_reference(*blocks: Any) -> Any:
    wide = [np.atleast_2d(b) for b in blocks]
    out = np.zeros(np.sum([b.shape for b in wide], axis=0), np.result_type(*wide))
    row = column = 0
    for b in wide:
        out[row : row + b.shape[0], column : column + b.shape[1]] = b
        row, column = row + b.shape[0], column + b.shape[1]
    return out


_moves(ops.block_diag, _blocks, _blocks_reference)


def _shapes(draw: Draw, *options: Any) -> Iterator[Sample]:
    """Tensors of a few ranks, each with the arguments that go with it."""
    for shape, *rest in options:
        args = [a for a in rest if not isinstance(a, dict)]
        kwargs = next((a for a in rest if isinstance(a, dict)), {})
        yield Sample((draw.array(shape), *args), kwargs)


def _each(*options: Any) -> Samples:
    return lambda draw: _shapes(draw, *options)


_moves(
    ops.squeeze,
    _each(((1, 3, 1),), ((1, 3, 1), {"axis": 0}), ((1, 0, 1), {"axis": (0, -1)}), ((),)),
    np.squeeze,
)
_moves(
    ops.expand_dims,
    _each(((2, 3), {"axis": 1}), ((2, 3), {"axis": (0, -1)}), ((), {"axis": 0}), ((0,),)),
    lambda x, axis=0: np.expand_dims(x, axis),
)
_moves(
    ops.moveaxis,
    _each(((2, 3, 5), 0, -1), ((2, 3, 5), (0, 2), (1, 0)), ((0, 3), 1, 0)),
    np.moveaxis,
)
_moves(ops.swapaxes, _each(((2, 3, 5), 0, 2), ((3, 0), -1, 0), ((2, 3), 1, 1)), np.swapaxes)
_moves(ops.matrix_transpose, _each(((2, 3),), ((2, 0, 3),), ((5, 1, 2, 3),)), np.matrix_transpose)


def _flatten_reference(x: Any, start_axis: int = 0, end_axis: int = -1) -> Any:
    if not x.ndim:
        return x.reshape(1)
    first, last = start_axis % x.ndim, end_axis % x.ndim + 1
    merged = int(np.prod(x.shape[first:last]))
    return x.reshape(*x.shape[:first], merged, *x.shape[last:])


_moves(
    ops.flatten, _each(((2, 3, 5),), ((2, 3, 5), 1), ((2, 3, 5), 0, 1), ((),), ((0, 3),)),
    _flatten_reference,
)  # fmt: skip
_moves(
    ops.flip,
    _each(((2, 3),), ((2, 3, 5), {"axis": (0, -1)}), ((0, 3), {"axis": 1}), ((),)),
    np.flip,
)
_moves(
    ops.roll,
    _each(
        ((5, 3), 2), ((2, 3), -4, {"axis": 1}), ((2, 3, 5), (1, -2), {"axis": (0, 2)}),
        ((0,), 1), ((), 3),
    ),
    np.roll,
)  # fmt: skip
_moves(
    ops.tile, _each(((3,), 2), ((2, 3), (3, 1, 2)), ((2, 3), (2,)), ((0, 2), (2, 2)), ((), 3)),
    np.tile,
)  # fmt: skip


def _repeats(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((2, 3)), 2))
    yield Sample((draw.array((2, 3)), 3), {"axis": 1})
    yield Sample((draw.array((3, 2)), [0, 2, 1]), {"axis": 0})
    yield Sample((draw.array((0, 2)), 2), {"axis": 0})
    yield Sample((draw.array(()), 0))


_moves(ops.repeat, _repeats, np.repeat)
_moves(
    fftshift, _each(((5,),), ((2, 3), {"axes": 1}), ((3, 8), {"axes": (0, 1)}), ((0, 3),)),
    np.fft.fftshift,
)  # fmt: skip
_moves(
    ifftshift, _each(((5,),), ((2, 3), {"axes": 1}), ((3, 8), {"axes": (0, 1)}), ((0, 3),)),
    np.fft.ifftshift,
)  # fmt: skip


def _pixels(draw: Draw, *, together: bool) -> Iterator[Sample]:
    for lead, size, r in (((1,), (3, 5), 2), ((2, 3), (2, 1), 3), ((), (2, 2), 1)):
        before, (height, width) = draw.shape(lead), draw.shape(size)
        c = draw.size(2)
        blocks, image = (c * r * r, height, width), (c, height * r, width * r)
        yield Sample((draw.array((*before, *(blocks if together else image))), r))


def _shuffled(x: Any, r: int) -> Any:
    *lead, c, height, width = x.shape
    out = np.zeros((*lead, c // (r * r), height * r, width * r), x.dtype)
    for i in range(r):
        for j in range(r):
            out[..., i::r, j::r] = x[..., i * r + j :: r * r, :, :]
    return out


def _unshuffled(x: Any, r: int) -> Any:
    *lead, c, height, width = x.shape
    out = np.zeros((*lead, c * r * r, height // r, width // r), x.dtype)
    for i in range(r):
        for j in range(r):
            out[..., i * r + j :: r * r, :, :] = x[..., i::r, j::r]
    return out


_moves(ops.pixel_shuffle, partial(_pixels, together=True), _shuffled)
_moves(ops.pixel_unshuffle, partial(_pixels, together=False), _unshuffled)


def _channels(draw: Draw) -> Iterator[Sample]:
    n, each, size = draw.shape((2, 3, 5))
    yield Sample((draw.array((n, 2 * each, size)), 2))
    yield Sample((draw.array((n, 3 * each)), 3))
    yield Sample((draw.array((n, each, size, 2)), 1))


def _channels_reference(x: Any, groups: int) -> Any:
    each = x.shape[1] // groups
    return x[:, [g * each + i for i in range(each) for g in range(groups)]]


_moves(ops.channel_shuffle, _channels, _channels_reference)


def _lists(draw: Draw) -> Iterator[Sample]:
    yield Sample(([draw.array((2, 3)), draw.array((2, 3))],))
    yield Sample(([draw.array((5, 2)), draw.array((5, 2)), draw.array((5, 2))],), {"axis": -1})
    yield Sample(([draw.array(())],))
    yield Sample(([draw.array((0, 3)), draw.array((0, 3))],), {"axis": 1})


_moves(ops.stack, _lists, np.stack)


def _cuts(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((5, 3)), 2))
    yield Sample((draw.array((2, 8)), 3), {"axis": -1})
    n = draw.size(5, least=3)
    yield Sample((draw.array((n, 2)), [1, 0, n - 1]))
    yield Sample((draw.array((0, 2)), 2))


def _split_reference(x: Any, size: Any, axis: int = 0) -> Any:
    if isinstance(size, int):
        places = list(range(size, x.shape[axis], size))
    else:
        places = np.cumsum(size)[:-1].tolist()
    return np.split(x, places, axis)


_moves(ops.split, _cuts, _split_reference)


def _chunk_reference(x: Any, chunks: int, axis: int = 0) -> Any:
    return _split_reference(x, max(1, -(-x.shape[axis] // chunks)), axis)


_moves(
    ops.chunk, _each(((5, 3), 2), ((2, 8), 3, {"axis": 1}), ((2, 3), 5), ((0, 2), 2)),
    _chunk_reference,
)  # fmt: skip


def _several(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((3, 1)), draw.array((5,)), draw.array(())))
    yield Sample((draw.array((2, 1, 3)), draw.array((5, 1))))
    yield Sample((draw.array((0, 3)), draw.array((1,))))


_moves(ops.broadcast_arrays, _several, lambda *arrays: list(np.broadcast_arrays(*arrays)))


def _axes_of_grid(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((3,)), draw.array((5,))))
    yield Sample((draw.array((2,)), draw.array((0,)), draw.array((3,))), {"indexing": "ij"})
    yield Sample((draw.array((2,)), draw.array((5,)), draw.array((3,))))
    yield Sample((draw.array((3,)),))


_moves(
    ops.meshgrid,
    _axes_of_grid,
    lambda *arrays, indexing="xy": list(np.meshgrid(*arrays, indexing=indexing)),
)


def _masks(draw: Draw) -> Iterator[Sample]:
    for shape, mask in (((3, 5), (3, 5)), ((2, 3), (3,)), ((3,), (2, 1)), ((0, 3), (3,)), ((), ())):
        yield Sample((draw.array(shape), draw.array(mask, dtype="bool")))


def _fills(draw: Draw) -> Iterator[Sample]:
    value = True if draw.dtype.kind == "bool" else 3
    for sample in _masks(draw):
        yield Sample((*sample.args, value))


_moves(ops.masked_fill, _fills, lambda x, mask, value: np.where(mask, np.asarray(value), x))
_moves(
    ops.masked_select,
    _masks,
    lambda x, mask: np.broadcast_arrays(x, mask)[0][np.broadcast_arrays(x, mask)[1]],
)


def _puts(draw: Draw) -> Iterator[Sample]:
    n, m, rows = *draw.shape((3, 2)), draw.size(5, least=3)
    places = np.argsort(draw.integers((rows, n), 1 << 30), axis=0)[:2]  # no place twice
    yield Sample((draw.array((rows, n)), places, draw.array((2, n))), {"axis": 0})
    places = np.argsort(draw.integers((m, rows), 1 << 30), axis=1)[:, :1] - rows
    yield Sample((draw.array((m, rows)), places, draw.array(())))
    if draw.dtype.kind != "bool":
        places = draw.integers((2, n), rows)
        options = {"axis": 0, "reduce": "sum"}
        yield Sample((draw.array((rows, n)), places, draw.array((2, n))), options, condition=4)


def _puts_reference(x: Any, indices: Any, values: Any, axis: int = -1, reduce: str = "") -> Any:
    out, updates = np.array(x), np.broadcast_to(values, indices.shape)
    for at in np.ndindex(*indices.shape):
        place = list(at)
        place[axis] = int(indices[at])
        out[tuple(place)] = updates[at] + (out[tuple(place)] if reduce else 0)
    return out


_moves(ops.put_along_axis, _puts, _puts_reference)

"""Products and norms of vectors and matrices, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import fft, linalg, ops
from ..operation import Traits
from ..ops.linear_algebra._matrices import sample_matrix
from ..sample import Checked, Draw, Sample

_CONTRACTION = Traits("contraction")


def _contracts(
    public: Callable[..., Any],
    samples: Callable[[Draw], Iterator[Sample]],
    reference: Callable[..., Any],
) -> None:
    Checked(public, samples=samples, reference=reference, traits=_CONTRACTION)


def _vectors(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind != "bool":
        yield Sample((draw.array((3,)), draw.array((5,))))
        yield Sample((draw.array((0,)), draw.array((2,))))


_contracts(ops.outer, _vectors, np.outer)


def _tensors(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind == "bool":
        return
    for a, b, options in (
        ((3, 5), (5, 2), {"axes": 1}), ((2, 3, 5), (3, 5, 2), {}), ((3,), (2,), {"axes": 0}),
        ((2, 3, 5), (5, 8, 2), {"axes": ((0, 2), (2, 0))}), ((0, 3), (3, 2), {"axes": 1}),
    ):  # fmt: skip
        yield Sample((draw.array(a), draw.array(b)), options, condition=8)


_contracts(ops.tensordot, _tensors, np.tensordot)


def _dots(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind == "bool":
        return
    for a, b, options in (
        ((3, 5), (5,), {}), ((5, 3), (5, 3), {"axis": -2}), ((2, 1, 3), (5, 3), {}),
        ((0,), (0,), {}),
    ):  # fmt: skip
        yield Sample((draw.array(a), draw.array(b)), options, condition=8)


_contracts(ops.vecdot, _dots, np.vecdot)


def _equations(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind == "bool":
        return
    equations: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
        ("ij,jk->ik", ((2, 3), (3, 5))),
        ("bij,bjk,k->bi", ((2, 3, 5), (2, 5, 8), (8,))),
        ("ii->i", ((3, 3),)),
        ("...ij->...ji", ((2, 3, 5),)),
        ("i,j", ((3,), (5,))),
        ("ij->", ((3, 5),)),
        ("iij,jk->k", ((2, 2, 3), (3, 5))),
    )
    for equation, shapes in equations:
        yield Sample((equation, *map(draw.array, shapes)), condition=16)


_contracts(ops.einsum, _equations, np.einsum)


def _crossed(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind != "bool":
        n, m = draw.shape((2, 5))
        yield Sample((draw.array((n, 3)), draw.array((n, 3))), condition=4)
        yield Sample((draw.array((3, m)), draw.array((3, 1))), {"axis": 0}, condition=4)
        yield Sample((draw.array((3,)), draw.array((m, 3))), condition=4)


_contracts(linalg.cross, _crossed, np.cross)


def _traced(draw: Draw) -> Iterator[Sample]:
    for shape, options in (((3, 5), {}), ((2, 3, 3), {"offset": 1}), ((0, 3), {}), ((5, 2), {})):
        yield Sample((draw.array(shape),), options, condition=4)


def _trace(x: Any, offset: int = 0) -> Any:
    return np.linalg.trace(x, offset=offset)


_contracts(linalg.trace, _traced, _trace)


def _square(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact or draw.dtype.itemsize == 2:
        return
    for shape, power in (((3, 3), 3), ((2, 5, 5), 2), ((3, 3), 0), ((2, 2), -2), ((0, 0), 1)):
        x = sample_matrix(draw, draw.shape(shape))
        yield Sample((x, power), condition=64, magnitude=2.5 ** abs(power))


Checked(linalg.matrix_power, samples=_square, reference=np.linalg.matrix_power)


def _norms(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact or draw.dtype.itemsize == 2:
        return
    for ord in ("fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf):
        x = sample_matrix(draw, draw.shape((2, 3, 5), least=1))
        yield Sample((x,), {"ord": ord, "keepdims": ord == 1}, condition=32)


def _norm(x: Any, ord: Any = "fro", keepdims: bool = False) -> Any:
    return np.linalg.matrix_norm(x, ord=ord, keepdims=keepdims)


Checked(linalg.matrix_norm, samples=_norms, reference=_norm)


def _ranks(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_inexact and draw.dtype.itemsize > 2:
        for shape in ((3, 5), (2, 5, 5)):
            x = sample_matrix(draw, draw.shape(shape))
            yield Sample((x,))
            x = x.copy()
            x[..., :1, :] = 0
            yield Sample((x,), {"rtol": 0.1})


def _rank(x: Any, rtol: Any = 1e-6) -> Any:
    return np.linalg.matrix_rank(x, rtol=rtol)


Checked(linalg.matrix_rank, samples=_ranks, reference=_rank, differentiable=False)


def _lines(draw: Draw) -> Iterator[Sample]:
    for norm in ("backward", "ortho", "forward"):
        yield Sample((draw.array((5, 8)),), {"norm": norm}, magnitude=8.0)
    for n in (1, 5, 8):
        yield Sample((draw.array((3, 7, 2)),), {"axis": 1, "n": n}, magnitude=8.0)
    yield Sample((draw.array((0, 3)),))


def _real_lines(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_complex:
        yield from _lines(draw)


def _whole(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((5, 8)),), {"axes": (1,)}, magnitude=8.0)
    yield Sample((draw.array((3, 5, 2)),), {"axes": (0, -1), "norm": "ortho"}, magnitude=8.0)
    yield Sample((draw.array((5, 3)),), {"s": (3, 8), "axes": (0, 1)}, magnitude=16.0)
    yield Sample((draw.array((0, 3)),), {"axes": (1,)})


def _real_whole(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_complex:
        yield from _whole(draw)


for public, samples, reference in (
    (fft.fft, _lines, np.fft.fft),
    (fft.ifft, _lines, np.fft.ifft),
    (fft.hfft, _lines, np.fft.hfft),
    (fft.ihfft, _real_lines, np.fft.ihfft),
    (fft.rfftn, _real_whole, np.fft.rfftn),
    (fft.irfftn, _whole, np.fft.irfftn),
):
    Checked(public, samples=samples, reference=reference)


def _signals(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact or draw.dtype.itemsize == 2:
        return
    n = draw.size(33, least=17)
    window = draw.array((8,), low=0.5, high=1.5).real
    yield Sample((draw.array((n,)), 8), condition=8, magnitude=8.0)
    options = {"window": window, "hop_length": 3, "center": False, "normalized": True}
    yield Sample((draw.array((2, n)), 8), options, condition=8, magnitude=8.0)
    options = {"win_length": 8, "window": window, "onesided": False}
    yield Sample((draw.array((3, n)), 9), options, condition=8, magnitude=8.0)


def _stft(
    x: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
) -> Any:  # fmt: skip
    weights = _weights(n_fft, win_length, window)
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2,) * 2], mode="reflect")
    starts = range(0, x.shape[-1] - n_fft + 1, hop_length or n_fft // 4)
    frames = np.stack([x[..., s : s + n_fft] * weights for s in starts], axis=-1)
    half = not np.iscomplexobj(x) if onesided is None else onesided
    transform = np.fft.rfft if half else np.fft.fft
    return transform(frames, axis=-2, norm="ortho" if normalized else "backward")


def _weights(n_fft: int, win_length: int | None, window: Any) -> Any:
    width = win_length or n_fft
    before = (n_fft - width) // 2
    given = np.ones(width) if window is None else window
    return np.pad(given, (before, n_fft - width - before))


Checked(ops.stft, samples=_signals, reference=_stft)


def _spectra(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_complex:
        return
    frames = draw.size(5, least=2)
    window = draw.array((8,), low=0.5, high=1.5).real
    yield Sample((draw.array((5, frames)), 8), condition=8, magnitude=2.0)
    options = {"window": window, "hop_length": 3, "normalized": True, "center": False}
    x = draw.array((2, 5, frames))
    yield Sample((x, 8), options, gradient=(0,), condition=8, magnitude=2.0)
    options = {"window": window, "onesided": False, "return_complex": True, "length": 10}
    x = draw.array((8, frames))
    yield Sample((x, 8), options, gradient=(0,), condition=8, magnitude=2.0)


def _istft(
    x: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, normalized: bool = False, onesided: bool = True,
    length: int | None = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """Frame after frame, added up and divided by the sum of the squared windows."""
    weights, hop = _weights(n_fft, win_length, window), hop_length or n_fft // 4
    norm: Any = "ortho" if normalized else "backward"
    back = np.fft.ifft if return_complex else partial(np.fft.irfft, n=n_fft)
    kept = x if return_complex else x[..., : n_fft // 2 + 1, :]
    pieces = back(kept, axis=-2, norm=norm)
    size = n_fft + hop * (x.shape[-1] - 1)
    total, squares = np.zeros((*x.shape[:-2], size), pieces.dtype), np.zeros(size)
    for t in range(x.shape[-1]):
        total[..., t * hop : t * hop + n_fft] += pieces[..., t] * weights
        squares[t * hop : t * hop + n_fft] += weights**2
    first = n_fft // 2 if center else 0
    last = size - first if length is None else min(size, first + length)
    out = total[..., first:last] / squares[first:last]
    missing = 0 if length is None else length - out.shape[-1]
    return np.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, missing)])


Checked(ops.istft, samples=_spectra, reference=_istft)

"""Functions that make tensors of nothing: constants, ranges, triangles of ones, windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import ops
from ..operation import Traits
from ..ops.signals.frequencies import fftfreq, rfftfreq
from ..sample import Checked, Draw, Sample

_CREATION = Traits("creation")


def _creates(
    public: Callable[..., Any],
    samples: Callable[[Draw], Iterator[Sample]],
    reference: Callable[..., Any],
) -> Checked:
    return Checked(
        public, samples=samples, reference=reference, traits=_CREATION, differentiable=False
    )


def _shapes(draw: Draw) -> Iterator[Sample]:
    for shape in ((3, 5), (0, 2), (), 4):
        yield Sample((shape,), {"dtype": draw.dtype}, gradient=False)
    yield Sample(((2, 3),), gradient=False)


def _like(draw: Draw) -> Iterator[Sample]:
    for shape in ((3, 5), (0, 2), ()):
        yield Sample((draw.array(shape),), gradient=False)
    yield Sample((draw.array((2, 3)),), {"dtype": "int32"}, gradient=False)


def _full_like(draw: Draw) -> Iterator[Sample]:
    for sample in _like(draw):
        kept = sample.kwargs or draw.dtype.kind != "bool"
        yield Sample((*sample.args, 3 if kept else True), sample.kwargs, gradient=False)


def _host(dtype: Any) -> Any:
    """A dtype as NumPy's, float32 if not given."""
    return np.float32 if dtype is None else getattr(dtype, "dtype", dtype)


_creates(ops.zeros, _shapes, lambda shape, dtype=None: np.zeros(shape, _host(dtype)))
_creates(ops.empty, _shapes, lambda shape, dtype=None: np.zeros(shape, _host(dtype)))
_creates(ops.ones, _shapes, lambda shape, dtype=None: np.ones(shape, _host(dtype)))
_creates(ops.zeros_like, _like, lambda x, dtype=None: np.zeros(x.shape))
_creates(ops.empty_like, _like, lambda x, dtype=None: np.zeros(x.shape))
_creates(ops.ones_like, _like, lambda x, dtype=None: np.ones(x.shape))
_creates(ops.full_like, _full_like, lambda x, value, dtype=None: np.full(x.shape, value))


def _matrices(draw: Draw) -> Iterator[Sample]:
    for sizes, k in (((3,), 0), ((3, 5), 1), ((5, 3), -2), ((0, 3), 0), ((2, 2), 7)):
        yield Sample(draw.shape(sizes), {"k": k, "dtype": draw.dtype}, gradient=False)


def _eye(n: int, m: int | None = None, *, k: int, dtype: Any) -> Any:
    return np.eye(n, m, k)


_creates(ops.eye, _matrices, _eye)
_creates(ops.tri, _matrices, lambda n, m=None, *, k, dtype: np.tri(n, m, k))


def _triangles(draw: Draw) -> Iterator[Sample]:
    for sizes, offset in (((3,), 0), ((3, 5), 1), ((5, 3), -2), ((0, 3), 0), ((2, 2), 7)):
        yield Sample(draw.shape(sizes), {"offset": offset}, gradient=False)


def _indices(of: Callable[..., Any], n: int, m: int | None = None, *, offset: int) -> Any:
    return np.stack(of(n, offset, m))


_creates(ops.tril_indices, _triangles, partial(_indices, np.tril_indices))
_creates(ops.triu_indices, _triangles, partial(_indices, np.triu_indices))


def _lines(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    for args, options in (
        ((0, 1), {"num": draw.size(5)}), ((-2.5, 3.0, 17), {}), ((2, 1, 3), {"endpoint": False}),
        ((1, 2, 1), {}), ((1, 2, 0), {}),
    ):  # fmt: skip
        yield Sample(args, {**options, "dtype": draw.dtype}, gradient=False, magnitude=3.0)


def _linspace(start: Any, stop: Any, num: int, *, dtype: Any, endpoint: bool = True) -> Any:
    return np.linspace(start, stop, num, endpoint=endpoint)


_creates(ops.linspace, _lines, _linspace)


def _powers(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for args, options in (
            ((-2, 3), {"num": draw.size(5)}), ((0, 4.5, 8), {"base": 2.0, "endpoint": False}),
        ):  # fmt: skip
            yield Sample(args, {**options, "dtype": draw.dtype}, gradient=False)


def _logspace(*args: Any, dtype: Any, **options: Any) -> Any:
    return np.logspace(*args, **options).astype(dtype.dtype)


_creates(ops.logspace, _powers, _logspace)


def _frequencies(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for n, d in ((8, 1.0), (5, 0.25), (1, 3)):
            yield Sample((draw.size(n),), {"d": d, "dtype": draw.dtype}, gradient=False)


_creates(fftfreq, _frequencies, lambda n, d, dtype: np.fft.fftfreq(n, d))
_creates(rfftfreq, _frequencies, lambda n, d, dtype: np.fft.rfftfreq(n, d))


def _windows(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for n, periodic in ((8, True), (5, False), (1, True), (0, False)):
            options = {"periodic": periodic, "dtype": draw.dtype}
            # Where the cosines cancel their rounding is left.
            yield Sample((draw.size(n),), options, gradient=False, magnitude=1.0)


def _window(name: Any, n: int, *, periodic: bool, dtype: Any) -> Any:
    from scipy.signal import get_window

    return get_window(name, n, fftbins=periodic) if n else np.zeros(0)


_creates(ops.hann_window, _windows, partial(_window, "hann"))
_creates(ops.hamming_window, _windows, partial(_window, "hamming"))
_creates(ops.blackman_window, _windows, partial(_window, "blackman"))
_creates(ops.bartlett_window, _windows, partial(_window, "bartlett"))
_creates(ops.kaiser_window, _windows, partial(_window, ("kaiser", 12.0)))

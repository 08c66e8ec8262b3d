"""Linear algebra of larger matrices by SciPy's LAPACK, where SciPy is installed.

NumPy solves any system by elimination, be it triangular, inverts a matrix as a system with the
identity on the right, and calls older versions of some routines. With small matrices that is as
good, and SciPy takes a third of a second to load. Which library it is follows from shapes alone,
and so do the bits.

LAPACK wants matrices by columns. A matrix in C order is its transpose by columns, so most of these
decompose the transpose, which needs no copy in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from ingle.tensor.contract import Aval
from ingle.tensor.eager import Kernel
from ingle.tensor.operation import Op
from ingle_numpy.kernels import KERNELS as OF_NUMPY
from ingle_numpy.kernels.exponential import matrix_exp
from ingle_numpy.kernels.linear_algebra import (
    ENDLESS,
    INDEFINITE,
    SINGULAR,
    explained,
    refuse_endless,
)

from .scipy_parts import scipy_part

Array = np.ndarray[Any, Any]

MANY = 1 << 14
"""Elements from which on SciPy pays."""
FEWEST_ROWS = 32
"""Of smaller matrices a call for each takes longer than NumPy's loop over them."""
FEWEST_FOR_TWO = 64
"""The same of a decomposition by several calls."""
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def is_large(shape: Sequence[int], fewest: int = FEWEST_ROWS) -> bool:
    """Whether matrices of a shape are worth SciPy."""
    return math.prod(shape) >= MANY and shape[-1] >= fewest and shape[-2] >= fewest


def solves_triangles(op: Op, avals: Sequence[Aval]) -> bool:
    """Whether an operation is a triangular system that its kernel solves sooner than its body."""
    return op.operation.name == "solve_triangular" and is_large(avals[0].shape)


class _Routines:
    """The routines for a dtype, by their names without the letter in front."""

    def __init__(self, library: ModuleType, dtype: np.dtype[Any]) -> None:
        self.library = library
        self._letter = _LETTERS[dtype.char]
        self.of_reals = dtype.kind == "f"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self.library, self._letter + name)
        return found

    def work(self, name: str, *sizes: int, **options: int) -> int:
        """How many numbers of working memory let a routine compute by blocks."""
        size, info = getattr(self, f"{name}_lwork")(*sizes, **options)
        _check(info, name)
        return int(size.real)


def _check(info: int, error: str) -> None:
    """Raises what NumPy does if a routine has not come to an end."""
    if info:
        raise np.linalg.LinAlgError(error)


def _each(*stacks: Array) -> Iterator[tuple[int, tuple[Array, ...]]]:
    """The matrices of stacks of one leading shape, with their number."""
    flat = [s.reshape(-1, *s.shape[-2:]) for s in stacks]
    return enumerate(zip(*flat, strict=True))


def _flat(out: Array) -> Array:
    """A stack of matrices along one axis, as a view."""
    return out.reshape(math.prod(out.shape[:-2]), *out.shape[-2:])


def _cholesky(routines: _Routines, x: Array) -> Array:
    out = np.empty(x.shape, x.dtype)
    for i, (a,) in _each(x):
        found, info = routines.potrf(a.T, lower=0, clean=1)
        _check(info, "Matrix is not positive definite")
        _flat(out)[i] = found.T
    return out


def _inv(routines: _Routines, x: Array) -> Array:
    out = np.empty(x.shape, x.dtype)
    work = routines.work("getri", x.shape[-1])
    for i, (a,) in _each(x):
        factors, pivots, info = routines.getrf(a.T)
        _check(info, "Singular matrix")
        found, info = routines.getri(factors, pivots, lwork=work, overwrite_lu=1)
        _check(info, "Singular matrix")
        _flat(out)[i] = found.T
    return out


def _solve(routines: _Routines, x1: Array, x2: Array) -> Array:
    lead = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    out = np.empty((*lead, *x2.shape[-2:]), x2.dtype)
    right = _flat(np.broadcast_to(x2, out.shape))
    factors: dict[int, Any] = {}
    places = _places(x1, lead)
    repeats = len(set(places)) < len(places)
    for i, place in enumerate(places):
        if place not in factors:  # a matrix that is repeated is decomposed once
            *factors[place], info = routines.getrf(_flat(x1)[place].T)
            _check(info, "Singular matrix")
        _flat(out)[i], info = routines.getrs(*factors[place], right[i], trans=1)
        _check(info, "Singular matrix")
        if not repeats:
            factors.clear()
    return out


def _places(x: Array, lead: tuple[int, ...]) -> list[int]:
    """Which matrix of a stack stands at each place of the leading shape that it broadcasts to."""
    own = np.arange(math.prod(x.shape[:-2])).reshape(x.shape[:-2])
    places: list[int] = np.broadcast_to(own, lead).reshape(-1).tolist()
    return places


def _solve_triangular(
    routines: _Routines, x1: Array, x2: Array, *, upper: bool, unitriangular: bool
) -> Array:
    lead = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    out = np.empty((*lead, *x2.shape[-2:]), x2.dtype)
    right = _flat(np.broadcast_to(x2, out.shape))
    for i, place in enumerate(_places(x1, lead)):
        found, info = routines.trtrs(
            _flat(x1)[place].T, right[i], lower=upper, trans=1, unitdiag=unitriangular
        )
        _check(info, "Singular matrix")
        _flat(out)[i] = found
    return out


def _lu_factor(routines: _Routines, x: Array, *, pivot: bool) -> tuple[Array, Array]:
    packed = np.empty(x.shape, x.dtype)
    pivots = np.empty((*x.shape[:-2], min(x.shape[-2:])), np.int32)
    for i, (a,) in _each(x):
        # A zero on the diagonal, which it tells of, is a result like any other.
        _flat(packed)[i], pivots.reshape(-1, pivots.shape[-1])[i], _ = routines.getrf(a)
    return packed, pivots


def _matrix_exp(routines: _Routines, x: Array) -> Array:
    wide = _Routines(routines.library, np.result_type(x, np.float64))
    return matrix_exp(x, partial(_solve, wide))


def _qr(routines: _Routines, x: Array, *, mode: str) -> tuple[Array, Array]:
    (m, n), dtype = x.shape[-2:], x.dtype
    k, width = min(m, n), m if mode == "complete" else min(m, n)
    q, r = (np.zeros((*x.shape[:-2], *s), dtype) for s in ((m, width), (width, n)))
    turn = routines.orgqr if routines.of_reals else routines.ungqr
    work = routines.work("geqrf", m, n)
    full = np.empty((m, max(width, n)), dtype, order="F")
    for i, (a,) in _each(x):
        full[:, :n] = a
        factors, tau, _, info = routines.geqrf(full[:, :n], lwork=work, overwrite_a=1)
        _check(info, "qr")
        _flat(r)[i, :k] = np.triu(factors[:k])
        found, _, info = turn(full[:, :width], tau, lwork=max(work, width * 64), overwrite_a=1)
        _check(info, "qr")
        _flat(q)[i] = found
    return q, r


def _eigh(routines: _Routines, x: Array, compute: int = 1) -> tuple[Array, Array]:
    refuse_endless("Eigenvalues", np.tril(x))
    n = x.shape[-1]
    values = np.empty(x.shape[:-1], np.empty(0, x.dtype).real.dtype)
    vectors = np.empty(x.shape if compute else (0, 0), x.dtype)
    routine = routines.syevd if routines.of_reals else routines.heevd
    for i, (a,) in _each(x):
        w, v, info = routine(np.asfortranarray(a), compute_v=compute, lower=1)
        _check(info, "Eigenvalues did not converge")
        values.reshape(-1, n)[i] = w
        if compute:
            _flat(vectors)[i] = v
    return values, vectors


def _eigvalsh(routines: _Routines, x: Array) -> Array:
    return _eigh(routines, x, 0)[0]


def _eig(routines: _Routines, x: Array, compute: int = 1) -> tuple[Array, Array]:
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("Array must not contain infs or NaNs")
    n, dtype = x.shape[-1], np.result_type(x.dtype, np.complex64)
    values = np.empty(x.shape[:-1], dtype)
    vectors = np.empty(x.shape if compute else (0, 0), dtype)
    work = routines.work("geev", n, compute_vl=0, compute_vr=compute)
    for i, (a,) in _each(x):
        *parts, _, v, info = routines.geev(a, compute_vl=0, compute_vr=compute, lwork=work)
        _check(info, "Eigenvalues did not converge")
        values.reshape(-1, n)[i].real = parts[0].real
        values.reshape(-1, n)[i].imag = parts[-1] if routines.of_reals else parts[0].imag
        if compute:
            _flat(vectors)[i] = _complex_vectors(v, parts[-1]) if routines.of_reals else v
    return values, vectors


def _complex_vectors(v: Array, imaginary: Array) -> Array:
    """Of a real matrix, where the parts of a pair's vectors stand in two columns."""
    out = v.astype(np.result_type(v.dtype, np.complex64))
    first = np.flatnonzero(imaginary > 0)
    out.imag[:, first] = v[:, first + 1]
    out[:, first + 1] = np.conj(out[:, first])
    return out


def _eigvals(routines: _Routines, x: Array) -> Array:
    return _eig(routines, x, 0)[0]


def _svd(
    routines: _Routines, x: Array, full_matrices: bool = True, compute: int = 1
) -> tuple[Array, Array, Array]:
    refuse_endless("SVD", x)
    m, n = x.shape[-2:]
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    shapes = ((m, rows), (columns, n)) if compute else ((0, 0), (0, 0))
    u, vh = (np.empty((*x.shape[:-2], *s), x.dtype) for s in shapes)
    s = np.empty((*x.shape[:-2], k), np.empty(0, x.dtype).real.dtype)
    options = {"compute_uv": compute, "full_matrices": int(full_matrices)}
    work = routines.work("gesdd", m, n, **options)
    for i, (a,) in _each(x):
        left, values, right, info = routines.gesdd(a, lwork=work, **options)
        _check(info, "SVD did not converge")
        s.reshape(-1, k)[i] = values
        if compute:
            _flat(u)[i], _flat(vh)[i] = left, right
    return u, s, vh


def _singular_values(routines: _Routines, x: Array) -> Array:
    return _svd(routines, x, compute=0)[1]


def _by_numpy(x1: Array, x2: Array, *, upper: bool, unitriangular: bool) -> Array:
    """A triangular system as any other."""
    matrix = np.triu(x1, int(unitriangular)) if upper else np.tril(x1, -int(unitriangular))
    if unitriangular:
        matrix = matrix + np.eye(x1.shape[-1], dtype=x1.dtype)
    return np.linalg.solve(matrix, x2)


def _of_large(name: str, function: Callable[..., Any], hint: str) -> Kernel:
    otherwise = OF_NUMPY.get(name) or explained(_by_numpy, hint)
    fewest = FEWEST_FOR_TWO if name == "qr" else FEWEST_ROWS

    def kernel(op: Op, *arrays: Array) -> Any:
        large = is_large(arrays[0].shape, fewest) and op.attributes.get("pivot", True)
        library = scipy_part("scipy.linalg.lapack") if large else None
        if library is None:
            return otherwise(op, *arrays)
        routines = _Routines(library, arrays[0].dtype)
        return explained(lambda *x, **options: function(routines, *x, **options), hint)(op, *arrays)

    return kernel


KERNELS: dict[str, Kernel] = {
    name: _of_large(name, function, hint)
    for name, function, hint in (
        ("cholesky", _cholesky, INDEFINITE),
        ("eig", _eig, ENDLESS),
        ("eigh", _eigh, ENDLESS),
        ("eigvals", _eigvals, ENDLESS),
        ("eigvalsh", _eigvalsh, ENDLESS),
        ("inv", _inv, SINGULAR),
        ("lu_factor", _lu_factor, ENDLESS),
        ("matrix_exp", _matrix_exp, SINGULAR),
        ("qr", _qr, ENDLESS),
        ("solve", _solve, SINGULAR),
        ("solve_triangular", _solve_triangular, SINGULAR),
        ("svd", _svd, ENDLESS),
        ("svdvals", _singular_values, ENDLESS),
    )
}
"""NumPy's of small matrices, SciPy's of large ones."""

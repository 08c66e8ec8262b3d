"""Complex numbers and Fourier transforms in ONNX, whose graphs have pairs of reals instead.

A complex tensor is written as a real one with an axis of two behind its own, which is what ONNX's
`DFT` takes and gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ingle.tensor import int64
from ingle.tensor.contract import Aval, Scalar

from .dynamic_sizes import fixed
from .rules import INT64, REDUCTIONS, RULES, Call, Rule, axes_of
from .writer import Size

COMPLEX: dict[str, Rule] = {}
"""What operations are that take or give complex numbers."""
REALS = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(float)}


def is_complex(x: Aval | Scalar) -> bool:
    """Whether an operand or a result is of complex numbers."""
    return x.dtype.dtype.kind == "c"


def pairs(value: Any, dtype: np.dtype) -> np.ndarray:
    """Complex numbers as real ones with an axis of two."""
    wide = np.asarray(value, dtype)
    return np.stack([wide.real, wide.imag], axis=-1)


def written(c: Call) -> Sequence[str] | None:
    """What an operation of complex numbers is, or None for a composite that has no rule."""
    rule = COMPLEX.get(c.name)
    if rule is None:
        return None
    made = rule(c)
    assert made is not None
    return [made] if isinstance(made, str) else list(made)


def rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        for name in names:
            COMPLEX[name] = function
        return function

    return enter


def _paired(c: Call, i: int) -> str:
    """An operand as pairs; a real one has imaginary parts of zero."""
    return c.inputs[i] if is_complex(c.given[i]) else _with_zeros(c, c.inputs[i], c.ndim(i))


def _with_zeros(c: Call, x: str, ndim: int) -> str:
    column = c.w.node("Unsqueeze", x, c.w.constant([-1], INT64))
    widths = [0] * (2 * ndim + 1) + [1]
    return c.w.node("Pad", column, c.w.constant(widths, INT64))


def _part(c: Call, x: str, which: int) -> str:
    return c.w.node("Gather", x, c.w.constant(which, INT64), axis=-1)


def _parts(c: Call, i: int) -> tuple[str, str | None]:
    """The real and the imaginary part; a real operand has none."""
    if not is_complex(c.given[i]):
        return c.inputs[i], None
    return _part(c, c.inputs[i], 0), _part(c, c.inputs[i], 1)


def _joined(c: Call, *parts: str) -> str:
    last = c.w.constant([-1], INT64)
    return c.w.node("Concat", *(c.w.node("Unsqueeze", p, last) for p in parts), axis=-1)


@rule("real", "imag")
def _real(c: Call) -> str:
    return _part(c, c.inputs[0], int(c.name == "imag"))


@rule("conj")
def _conj(c: Call) -> str:
    return c.w.node("Mul", c.inputs[0], c.w.constant([1, -1], REALS[c.dtype]))


@rule("negative")
def _negative(c: Call) -> str:
    return c.w.node("Neg", c.inputs[0])


@rule("stop_gradient", "depend")
def _same(c: Call) -> str:
    return c.w.node("Identity", c.inputs[0])


@rule("abs")
def _abs(c: Call) -> str:
    square = c.w.node("Mul", c.inputs[0], c.inputs[0])
    last = c.w.constant([-1], INT64)
    return c.w.node("Sqrt", c.w.node("ReduceSum", square, last, keepdims=0))


@rule("astype")
def _astype(c: Call) -> str:
    if not is_complex(c.given[0]):
        real = REALS[c.dtype]
        x = c.inputs[0] if c.dtype_of(0) == real else c.w.cast(c.inputs[0], real)
        return _with_zeros(c, x, c.ndim(0))
    if c.dtype.kind == "c":
        return c.w.cast(c.inputs[0], REALS[c.dtype])
    return c.w.cast(_part(c, c.inputs[0], 0), c.dtype)


@rule("full")
def _full(c: Call) -> str:
    return c.w.expand(_paired(c, 0), [*c.statics["shape"], 2], REALS[c.dtype])


@rule("slice_update")
def _slice_update(c: Call) -> str | Sequence[str]:
    """By places in the axes before the pairs, as of real numbers."""
    inputs = [_paired(c, 0), _paired(c, 1), *c.inputs[2:]]
    made = RULES["slice_update"](replace(c, inputs=inputs))
    assert made is not None
    return made


def _aligned(c: Call) -> list[str]:
    """Operands as pairs of as many axes, since their axes of two have to meet."""
    n = max(c.ndim(0), c.ndim(1))
    found = []
    for i in (0, 1):
        x = _paired(c, i)
        more = list(range(n - c.ndim(i)))
        found.append(c.w.node("Unsqueeze", x, c.w.constant(more, INT64)) if more else x)
    return found


@rule("add", "subtract")
def _add(c: Call) -> str:
    return c.w.node("Add" if c.name == "add" else "Sub", *_aligned(c))


@rule("multiply")
def _multiply(c: Call) -> str:
    (a, b), (x, y) = _parts(c, 0), _parts(c, 1)

    def times(p: str, q: str) -> str:
        return c.w.node("Mul", p, q)

    if b is None or y is None:
        real, other = (a, (x, y)) if b is None else (x, (a, b))
        assert other[1] is not None
        return _joined(c, times(real, other[0]), times(real, other[1]))
    return _joined(
        c,
        c.w.node("Sub", times(a, x), times(b, y)),
        c.w.node("Add", times(a, y), times(b, x)),
    )


@rule("divide")
def _divide(c: Call) -> str:
    (a, b), (x, y) = _parts(c, 0), _parts(c, 1)
    if y is None:
        assert b is not None
        return _joined(c, c.w.node("Div", a, x), c.w.node("Div", b, x))
    size = c.w.node("Add", c.w.node("Mul", x, x), c.w.node("Mul", y, y))
    real, imaginary = c.w.node("Mul", a, x), c.w.node("Neg", c.w.node("Mul", a, y))
    if b is not None:
        real = c.w.node("Add", real, c.w.node("Mul", b, y))
        imaginary = c.w.node("Add", imaginary, c.w.node("Mul", b, x))
    return _joined(c, c.w.node("Div", real, size), c.w.node("Div", imaginary, size))


@rule("reshape", "broadcast_to")
def _shaped(c: Call) -> str:
    sizes: list[Size] = [*c.statics["shape"], 2]
    x = c.inputs[0]
    if c.name == "reshape":
        return c.w.reshape(x, sizes)
    if more := list(range(len(sizes) - 1 - c.ndim(0))):
        x = c.w.node("Unsqueeze", x, c.w.constant(more, INT64))
    return c.w.expand(x, sizes, REALS[c.dtype])


@rule("sum", "mean")
def _reduce(c: Call) -> str:
    axes = [a % c.ndim(0) for a in axes_of(c)]  # The pairs lie behind them.
    return c.w.node(
        REDUCTIONS[c.name], c.inputs[0], c.w.constant(axes, INT64),
        keepdims=int(c.statics["keepdims"]), noop_with_empty_axes=1,
    )  # fmt: skip


@rule("permute_dims")
def _permute(c: Call) -> str:
    return c.w.node("Transpose", c.inputs[0], perm=[*c.statics["axes"], c.ndim(0)])


@rule("concat")
def _concat(c: Call) -> str:
    axis = c.statics["axis"] % c.ndim(0)
    return c.w.node("Concat", *(_paired(c, i) for i in range(len(c.inputs))), axis=axis)


@rule("slice")
def _slice(c: Call) -> str | Sequence[str]:
    first = c.given[0]
    assert isinstance(first, Aval)
    statics = {
        "sizes": (*c.statics["sizes"], 2),
        "steps": None if c.statics["steps"] is None else (*c.statics["steps"], 1),
    }
    given = [Aval((*first.shape, 2), first.dtype), *c.given[1:], Scalar(0, int64)]
    inputs = [*c.inputs, c.w.constant(0, INT64)]
    made = RULES["slice"](replace(c, inputs=inputs, given=given, statics=statics))
    assert made is not None
    return made


def _scaled(c: Call, x: str, axes: Sequence[int], inverse: bool) -> str:
    """ONNX divides by the number of elements backward, and not at all forward."""
    norm = c.statics["norm"]
    if norm == "backward":
        return x
    real = REALS.get(c.dtype, c.dtype)
    count = c.w.constant(1, real)
    for a in axes:
        size = c.w.node("Shape", c.inputs[0], start=a, end=a + 1)
        if c.name == "irfft":
            size = c.w.constant([c.statics["n"]], INT64)
        count = c.w.node("Mul", count, c.w.cast(size, real))
    by = c.w.node("Sqrt", count) if norm == "ortho" else count
    return c.w.node("Mul" if inverse else "Div", x, by)


@rule("fftn", "ifftn")
def _transform(c: Call) -> str:
    x, inverse = _paired(c, 0), c.name == "ifftn"
    axes = c.statics["axes"]
    axes = list(range(c.ndim(0))) if axes is None else [a % c.ndim(0) for a in axes]
    for a in axes:
        x = c.w.node("DFT", x, "", c.w.constant(a, INT64), inverse=int(inverse))
    return _scaled(c, x, axes, inverse)


@rule("rfft")
def _half(c: Call) -> str:
    axis = c.statics["axis"] % c.ndim(0)
    x = c.w.node("Unsqueeze", c.inputs[0], c.w.constant([-1], INT64))
    x = c.w.node("DFT", x, "", c.w.constant(axis, INT64), onesided=1)
    return _scaled(c, x, [axis], False)


@rule("irfft")
def _whole(c: Call) -> str:
    """The other half of the spectrum is the conjugate of the first, in the other order."""
    axis, x = c.statics["axis"] % c.ndim(0), _paired(c, 0)
    n = fixed(c.statics["n"], c.name, "the number of elements")
    have = fixed(c.shape_of(0)[axis], c.name, "the number of frequencies")
    places = np.abs((np.arange(n) + n // 2) % n - n // 2)
    if have <= n // 2:  # what is missing is zero
        widths = [0] * 2 * (c.ndim(0) + 1)
        widths[c.ndim(0) + 1 + axis] = n // 2 + 1 - have
        x = c.w.node("Pad", x, c.w.constant(widths, INT64))
    x = c.w.node("Gather", x, c.w.constant(places, INT64), axis=axis)
    signs = np.ones((n, *[1] * (c.ndim(0) - axis - 1), 2))
    signs[n // 2 + 1 :, ..., 1] = -1
    x = c.w.node("Mul", x, c.w.constant(signs, c.dtype))
    x = c.w.node("DFT", x, "", c.w.constant(axis, INT64), inverse=1)
    return _scaled(c, _part(c, x, 0), [axis], True)

"""What sizes and numbers of a program are in terms of the dynamic ones, found by other examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.followed import plain
from ingle.tensor.programs import Program, Traced
from ingle.tensor.pytree import flatten

from ..errors import UnsupportedError
from .writer import Dim, Size


class Variant:
    """The same program for other values of some dynamic sizes.

    Attributes:
        program: as it was traced for them.
        sizes: all dynamic sizes, as they are here.
        base: the same in the example.
        op: at one of its steps, the operation there.
        given: its operands.
        closed: the constants that it takes behind its inputs.
    """

    def __init__(self, program: Program, sizes: Mapping[str, int], base: Mapping[str, int]) -> None:
        self.program = program
        self.sizes = sizes
        self.base = base
        self.op: Any = None
        self.given: list[Aval | Scalar] = []
        self.closed: Sequence[Any] = ()

    def into(self, program: Program) -> Variant:
        """This variant of a program inside of the program."""
        return Variant(program, self.sizes, self.base)

    def step(self, at: int) -> Variant:
        """This variant at one of its steps."""
        found = self.into(self.program)
        step = self.program.steps[at]
        found.op = step.op
        found.given = [
            Scalar(plain(x.value), x.dtype) if isinstance(x, Scalar) else self.program.avals[x]
            for x in step.inputs
        ]
        return found


def inside(
    program: Program, others: Sequence[Variant], of: Callable[[Variant], Program]
) -> list[Variant]:
    """The variants of a program inside of the program, which have its operations.

    Raises:
        UnsupportedError: one computes otherwise.
    """
    found = [v.into(of(v)) for v in others]
    names = [s.op.operation.name for s in program.steps]
    for v in found:
        if [s.op.operation.name for s in v.program.steps] != names:
            raise UnsupportedError(
                f"export_onnx: the module computes otherwise for other sizes of {', '.join(v.base)}"
                "; leave them out of dynamic_axes"
            )
    return found


def traced_inside(
    traced: Traced, others: Sequence[Variant], of: Callable[[Variant], Traced]
) -> list[Variant]:
    """`inside` for what was traced: the variants have its constants, too."""
    made = [of(v) for v in others]
    programs = iter(t.program for t in made)
    found = inside(traced.program, others, lambda _: next(programs))
    for v, t in zip(found, made, strict=True):
        v.closed = t.closed
    return found


def constant_of(
    value: np.ndarray, others: Sequence[np.ndarray], variants: Sequence[Variant]
) -> tuple[np.ndarray, tuple[Size, ...]] | None:
    """A constant that is as long as dynamic sizes say, and repeated there.

    Returns:
        What is repeated and the whole shape; nothing if it is the same for all sizes.

    Raises:
        UnsupportedError: it depends on them in another way.
    """
    if all(o.shape == value.shape and o.tobytes() == value.tobytes() for o in others):
        return None
    if all(o.ndim == value.ndim for o in others):
        shape = tuple(
            size_of(n, [o.shape[i] for o in others], variants) for i, n in enumerate(value.shape)
        )
        first = tuple(slice(None) if isinstance(n, int) else slice(1) for n in shape)
        row = value[first]
        if row.size and all(
            np.broadcast_to(row, o.shape).tobytes() == o.tobytes() for o in (value, *others)
        ):
            return row, shape
    raise UnsupportedError(
        f"export_onnx: a constant of shape {value.shape} depends on {', '.join(variants[0].base)}: "
        "what is computed of sizes alone is written down as it is; leave them out of dynamic_axes"
    )


def _number(x: Scalar) -> bytes:
    return np.asarray(plain(x.value)).tobytes()


def number_of(
    x: Scalar, others: Sequence[Aval | Scalar], variants: Sequence[Variant]
) -> tuple[Dim, bool] | None:
    """A number that dynamic sizes decide: the size that it is, and whether it is divided by.

    Returns:
        Nothing if it is the same for all sizes.

    Raises:
        UnsupportedError: it is another function of them.
    """
    values = [o.value for o in others if isinstance(o, Scalar)]
    if all(_number(o) == _number(x) for o in others if isinstance(o, Scalar)):
        return None
    for inverse in (False, True):
        whole = [_whole(v, inverse) for v in (x.value, *values)]
        known = [n for n in whole if n is not None]
        if len(known) < len(whole):
            continue
        try:
            dim = size_of(known[0], known[1:], variants)
        except UnsupportedError:  # said below of the number that it is
            continue
        assert isinstance(dim, Dim)
        return dim, inverse
    raise UnsupportedError(
        f"export_onnx: the number {x.value} depends on {', '.join(variants[0].base)} and is "
        "neither a sum of their multiples, nor a product, nor 1 divided by it; leave them out of "
        "dynamic_axes"
    )


def _whole(value: Any, inverse: bool) -> int | None:
    if isinstance(value, complex) or value != value or (inverse and not value):
        return None
    found = 1 / value if inverse else value
    if abs(found) == float("inf"):
        return None
    near = round(found)
    return near if (1 / near == value if inverse and near else near == value) else None


def sizes_of(
    x: Aval | Scalar, others: Sequence[Aval | Scalar], variants: Sequence[Variant]
) -> tuple[Size, ...]:
    """The shape of an operand.

    Raises:
        UnsupportedError: a size is another function of the dynamic ones.
    """
    shapes = [() if isinstance(v, Scalar) else v.shape for v in (x, *others)]
    return tuple(size_of(n, [s[i] for s in shapes[1:]], variants) for i, n in enumerate(shapes[0]))


def known_sizes_of(
    x: Aval, others: Sequence[Aval], variants: Sequence[Variant]
) -> tuple[Size | None, ...]:
    """The shape of what a graph takes or returns, where a size may stay open."""

    def one(axis: int) -> Size | None:
        try:
            return size_of(x.shape[axis], [o.shape[axis] for o in others], variants)
        except UnsupportedError:
            return None

    return tuple(map(one, range(len(x.shape))))


class Statics(Mapping[str, Any]):
    """The attributes of an operation, where sizes that differ between the examples are dynamic.

    Each is looked at when it is asked for, since not all sizes can be told by the dynamic ones and
    few are needed.
    """

    def __init__(self, op: Any, variants: Sequence[Variant]) -> None:
        self._own = op.attributes
        self._variants = variants

    def __getitem__(self, name: str) -> Any:
        others = [v.op.attributes[name] for v in self._variants]
        return _merged(self._own[name], others, self._variants)

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


def _merged(value: Any, others: list[Any], variants: Sequence[Variant]) -> Any:
    if isinstance(value, tuple) and all(isinstance(o, tuple) for o in others):
        return tuple(_merged(v, [o[i] for o in others], variants) for i, v in enumerate(value))
    if type(value) is int and all(type(o) is int for o in others):
        return size_of(value, others, variants)
    return value


def size_of(value: int, others: Sequence[int], variants: Sequence[Variant]) -> Size:
    """A size by what it is for the other examples: one changes each dynamic size, the last all."""
    if all(o == value for o in others):
        return value
    base = variants[0].base
    parts, constant, even = [], value, True
    for (name, n), other in zip(base.items(), others, strict=False):
        slope, rest = divmod(other - value, 2)
        if slope or rest:
            parts.append((name, slope))
            constant -= slope * n
            even = even and not rest
    whole = others[-1]
    if even and constant + sum(s * variants[-1].sizes[n] for n, s in parts) == whole:
        return Dim(constant, tuple(parts))
    product, grown = 1, 1
    for name, _ in parts:
        product, grown = product * base[name], grown * variants[-1].sizes[name]
    if product and value % product == 0 and value // product * grown == whole:
        return Dim(value // product, tuple((name, 1) for name, _ in parts), product=True)
    raise UnsupportedError(
        f"export_onnx: a size of {value} depends on {', '.join(n for n, _ in parts) or min(base)} "
        "in a way that is neither a sum of multiples nor a product; leave one out of dynamic_axes"
    )


def fixed(value: Any, operation: str, what: str) -> Any:
    """What ONNX wants as a number in the graph.

    Raises:
        UnsupportedError: it depends on dynamic sizes.
    """
    if any(isinstance(n, Dim) for n in flatten(value)):
        raise UnsupportedError(
            f"export_onnx: {what} of {operation} depends on dynamic sizes, and ONNX takes a number "
            "there; leave these sizes out of dynamic_axes"
        )
    return value

"""Which operations the passes know how to put into kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.convolution.forward import CONV
from ingle.tensor.ops.convolution.window_products import WINDOW_DOT
from ingle.tensor.ops.elementwise.dependence import DEPEND
from ingle.tensor.ops.movement.extending import EXTENDED_GRADIENT
from ingle.tensor.ops.scans.recurrence import LINEAR_RECURRENCE

from ..ir.regions import ASSEMBLED
from ..kernel.code import DTYPES, FLOATS, Code, CodeBuilder
from ..kernel.expand import expand, function_code
from ..kernel.lowering import (
    can_lower,
    extends_rows,
    is_fold,
    lower,
    reduction_of,
    scan_of,
    sort_of,
)
from ..kernel.nest import MAX_OUTER
from ..passes.channel_convolutions import by_channels, sums_taps
from ..passes.convolutions import WindowProblem, by_windows, problem_of, window_problem
from ..passes.decompositions import Body, decomposition
from .split_reductions import split_reduction
from .split_scans import split_scan
from .split_sums import split_sum

LONGEST_NETWORK = 16
"""Elements of a row up to which its sorting network is small enough to stay in registers."""

LONGEST_AXIS = 1 << 30
"""Elements of an image axis whose places the lanes of a kernel count in 32 bits."""


def is_product(op: Op) -> bool:
    """Whether an operation is a matrix product."""
    return op.operation.traits.family == "matmul"


def sums_bytes(op: Op) -> bool:
    """Whether an operation is a product of matrices of bytes in int32."""
    return op.operation.traits.family == "bytes"


def sorts(op: Op, avals: Sequence[Aval]) -> bool:
    """Whether a network finds the order of the rows that an operation sorts."""
    made, x = sort_of(op), avals[0]
    if made is None or not 1 <= x.shape[op.attributes["axis"]] <= LONGEST_NETWORK:
        return False
    return x.dtype.name in DTYPES and (made == "values" or x.dtype.itemsize <= 4)


def folds(op: Op, avals: Sequence[Aval]) -> bool:
    """Whether there is a nest for the windows that an operation adds up."""
    if op.operation is WINDOW_DOT:
        return sums_taps(op, avals)
    given = op.attributes
    size, rank = given.get("size") or avals[0].shape[2:], len(given["stride"])
    if rank > 2 or size[-1] >= LONGEST_AXIS:
        return False
    if op.operation is not CONV and any(s != 1 for s in given["stride"]):
        return False
    if len(avals) > 1:  # a convolution, or its gradient: each channel by itself
        weight, groups = avals[1], given["groups"]
        if not weight.shape[0] == avals[0].shape[1] == groups > 1 or weight.shape[1] != 1:
            return False
    return avals[0].dtype.name in ("float32", "float64")


def extends(op: Op, x: Aval) -> bool:
    """Whether there is a nest for elements that an operation adds, some at the ends of rows, or
    takes back there alone."""
    low, high = op.attributes["low"], op.attributes["high"]
    if low[-1] + high[-1] == 0 or len(x.shape) > MAX_OUTER + 1:
        return False
    if op.operation is EXTENDED_GRADIENT:
        return not any(low[:-1] + high[:-1]) and x.dtype.name in ("float32", "float64")
    return x.dtype.name in DTYPES


class Answer(NamedTuple):
    """How an operation on certain operands is computed.

    Attributes:
        way: by somebody's own `"custom"` kernel; `"whole"`, as the device offers; `"rewritten"` as
            `body`; by a `"generated"` kernel; else by its own body, or by the backend.
        body: what it is in terms of other primitives, if it is rewritten.
    """

    way: Literal["custom", "whole", "rewritten", "generated", "other"]
    body: Body | None = None


class Kernels(Protocol):
    """The part of `KernelDevice` that legality depends on."""

    @property
    def dtypes(self) -> frozenset[str] | None: ...

    @property
    def spreads_products(self) -> bool: ...

    @property
    def splits_sums(self) -> bool: ...

    @property
    def moves_by_vectors(self) -> bool: ...

    @property
    def folds(self) -> bool: ...

    def supports(self, op: Op, avals: Sequence[Aval], /) -> bool: ...

    def has_custom_kernel(self, op: Op, avals: Sequence[Aval], /) -> bool: ...

    def takes_whole(self, op: Op, avals: Sequence[Aval], /) -> bool: ...

    def contracts(self, avals: Sequence[Aval], /) -> bool: ...

    def takes_windows(self, problem: WindowProblem, /) -> bool: ...


class Legality:
    """What kernels can do on a device. Passes get this one object, and ask once for each node.

    Nothing is remembered by operands: their sizes may be symbols, and finding these in a table
    would note a condition.

    Args:
        device: says what it brings besides generated kernels.
    """

    def __init__(self, device: Kernels) -> None:
        self.device = device
        self._dtypes = device.dtypes
        self._folds = device.folds
        self._contracts_bytes: Callable[[Sequence[Aval]], bool] = getattr(
            device, "contracts_bytes", lambda _: False
        )

    def answer(self, op: Op, avals: Sequence[Aval]) -> Answer:
        """How an operation on operands like these is computed; sizes are numbers."""
        device = self.device
        if device.has_custom_kernel(op, avals):
            return Answer("custom")
        if device.takes_whole(op, avals):
            return Answer("whole")
        if not self._has(a.dtype.name for a in avals):
            return Answer("other")
        spread = device.spreads_products and is_product(op) and not device.contracts(avals)
        body = decomposition(op, avals, spread) or self._by_windows(op, avals)
        if body is None and device.splits_sums:
            body = _in_pieces(op, avals[0]) if avals else None
        if body is not None:
            return Answer("rewritten", body)
        return Answer("generated" if self._known(op, avals) else "other")

    def _by_windows(self, op: Op, avals: Sequence[Aval]) -> Body | None:
        """A convolution or a gradient of one as products with windows, if the device has these."""
        each = by_channels(op, avals) if self._folds else None
        if each is not None:
            return each
        problem = window_problem(op, avals)
        if problem is None or not self.device.takes_windows(problem):
            return None
        return by_windows(op, avals, self._folds)

    def generates(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether a kernel is generated for an operation that has been decomposed."""
        device = self.device
        if device.has_custom_kernel(op, avals) or device.takes_whole(op, avals):
            return False
        return self._known(op, avals)

    def _has(self, dtypes: Iterable[str]) -> bool:
        """Whether kernels of the device may compute in these."""
        return self._dtypes is None or self._dtypes.issuperset(dtypes)

    def _known(self, op: Op, avals: Sequence[Aval]) -> bool:
        if not self._lowers(op, avals):
            return False
        return self._dtypes is None or self._has(_needed(op, avals))

    def _lowers(self, op: Op, avals: Sequence[Aval]) -> bool:
        traits = op.operation.traits
        if is_product(op):
            return self.device.contracts(avals)
        if sums_bytes(op):
            return self._contracts_bytes(avals)
        if traits.family == "windows":
            return self.device.takes_windows(problem_of(op, avals))
        if op.operation is DEPEND:
            return True
        if traits.family == "movement":
            return avals[0].dtype.name in DTYPES
        if sort_of(op) is not None:
            return sorts(op, avals)
        if is_fold(op):
            return self._folds and folds(op, avals)
        if extends_rows(op):
            return self._folds and extends(op, avals[0])
        if op.operation is LINEAR_RECURRENCE:
            return self._folds and avals[0].dtype.name in FLOATS
        if traits.access in ASSEMBLED or scan_of(op) is not None:
            return all(a.dtype.name in DTYPES for a in avals)
        if traits.family == "gather":
            return all(a.dtype.name in DTYPES for a in avals)
        if reduction_of(op) is not None:
            truth = reduction_of(op) in ("any", "all")
            return avals[0].dtype.name in (DTYPES if truth else DTYPES - {"bool"})
        return can_lower(op, avals)


def _needed(op: Op, avals: Sequence[Aval]) -> set[str]:
    """The dtypes of a kernel's operands, and of the numbers that it computes with inside."""
    results = infer(op, avals)
    found = {a.dtype.name for a in (*avals, *results)}
    if op.operation.traits.kind == "elementwise" and op.operation is not DEPEND:
        builder = CodeBuilder()
        loads = [builder.load(k, a.dtype.name) for k, a in enumerate(avals)]
        code, roots = builder.finish(lower(op, builder, loads, results[0]))
        found |= _inside(expand(code, roots)[0])
    return found


def _inside(code: Code) -> set[str]:
    found = {instruction.dtype for instruction in code}
    for instruction in code:
        if instruction.name == "fallback":
            dtypes = tuple([code[at].dtype for at in instruction.args[2:]])
            found |= _inside(expand(*function_code(instruction.value, dtypes))[0])
    return found


def _in_pieces(op: Op, x: Aval) -> Body | None:
    """How an operation along few long rows is made of itself along pieces of them."""
    return split_sum(op, x) or split_reduction(op, x) or split_scan(op, x)

"""Operations as code: what an elementwise or creating operation computes for one element.

The truth is NumPy, as the numpy backend calls it. Arithmetic on half types is done in float32 and
rounded by an implicit cast, which fused code drops.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import DType
from ingle.tensor.operation import Op

from . import (
    lowering_creation,
    lowering_float,
    lowering_halves,
    lowering_integer,
    lowering_plain,
)
from .code import DTYPES, FLOATS, HALVES, CodeBuilder
from .expression import Expression
from .lowering_plain import Rule
from .nest import COMBINES

RULES = {
    **lowering_plain.RULES,
    **lowering_integer.RULES,
    **lowering_float.RULES,
    **lowering_creation.RULES,
}
"""What computes an operation, by its name; `register_lowering` adds to it."""

HALF_RULES = lowering_halves.RULES
"""The same for operations whose first operand is of a half type, before those of all."""

CREATIONS = frozenset(lowering_creation.RULES)
"""Operations whose result is a function of the index and of numbers."""

_REDUCTIONS = frozenset(COMBINES)
_SCANS = {"cumulative_sum": "sum", "cumulative_prod": "prod", "cummax_indices": "argmax",
            "cummin_indices": "argmin", "linear_recurrence": "sum"}  # fmt: skip
_FOLDS = frozenset({"fold", "conv", "conv_input_gradient", "window_dot"})
_SORTS = {"argsort": "places", "sort": "values"}


def can_lower(op: Op, avals: Sequence[Aval]) -> bool:
    """Whether kernels can compute an operation on inputs of these dtypes.

    That is: there is code for it here, or it is a reduction that nests have, or a gather, which
    is a leaf of the code.
    """
    gathers = op.operation.traits.family == "gather"
    known = _rule(op, avals[0].dtype.name if avals else "") is not None
    if not known and not gathers and reduction_of(op) is None:
        return False
    dtypes = [a.dtype for a in avals] + [d for d in op.attributes.values() if isinstance(d, DType)]
    return all(d.name in DTYPES for d in dtypes)


def _rule(op: Op, dtype: str) -> Rule | None:
    """What computes an operation whose first operand has a dtype."""
    short = HALF_RULES.get(op.operation.name) if dtype in HALVES else None
    return short or RULES.get(op.operation.name)


def reduction_of(op: Op) -> str | None:
    """How a reduction combines elements, for `Reduce` stages; None for other operations."""
    operation = op.operation
    known = operation.traits.kind == "reduction" and operation.name in _REDUCTIONS
    return operation.name if known else None


def scan_of(op: Op) -> str | None:
    """How an operation folds the elements up to each place, for running `Reduce` stages."""
    return _SCANS.get(op.operation.name)


def sort_of(op: Op) -> str | None:
    """What an operation makes of rows in order: their places, or their values."""
    return _SORTS.get(op.operation.name)


def is_fold(op: Op) -> bool:
    """Whether an operation adds up windows that overlap, or may: of each channel by itself.

    Or all windows that a tap sees, which is what a weight's gradient adds up.
    """
    return op.operation.name in _FOLDS


def extends_rows(op: Op) -> bool:
    """Whether an operation adds elements of rows at their ends, or takes them back."""
    return op.operation.name in ("extended", "extended_gradient")


def lower(op: Op, builder: CodeBuilder, args: Sequence[int], out: Aval) -> int:
    """Appends what computes one element of an operation's result.

    Args:
        op: an operation that `can_lower` accepts.
        args: positions of the inputs' elements, with the inputs' dtypes. For `CREATIONS` the
            element's number in C order, an int64, comes first.
        out: of the result; its shape does not matter.

    Returns:
        the position of the result, which has the dtype of `out`.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.operation import OPERATIONS
    >>> b = CodeBuilder()
    >>> x = b.load(0, "float16")
    >>> at = lower(OPERATIONS["exp"].op(), b, [x], Aval((3,), it.float16))
    >>> [i.name for i in b.instructions]
    ['load', 'cast', 'exp', 'cast']
    """
    # Results that jump are those of the value in memory: a maximum equals the element that it was
    # taken from, and what is printed as 3.0 has no floor of 2.
    if op.operation.traits.discontinuous or out.dtype.name not in FLOATS:
        args = [builder.settled(at) for at in args]
    values = [Expression(builder, at) for at in args]
    rule = _rule(op, values[0].dtype if values else "")
    assert rule is not None, f"{op.operation.name} has no code: see `can_lower`"
    result = rule(op, values, out.dtype.name)
    return builder.narrow(result.at, out.dtype.name)

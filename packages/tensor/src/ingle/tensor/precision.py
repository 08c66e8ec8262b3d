"""Mixed precision: operations take the dtype that their rooms' trait `precision` suits.

Micikevicius et al.: Mixed precision training (ICLR 2018). The casts are made where an operation
is dispatched, so gradients, recording and every backend see ordinary operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from .blocks import WithBlock, holding
from .dtypes import DType, Used, as_dtype, bfloat16, float16, float32
from .errors import DTypeError

if TYPE_CHECKING:
    from .contract import Handle, Scalar
    from .operation import Op

low: ContextVar[DType | None] = ContextVar("ingle_precision", default=None)
"""The half type that operations of low precision compute in; None for what they are given."""


used = Used()
"""Whether mixed precision was."""
_MIXED = frozenset({float16, bfloat16, float32})


def precision(dtype: object) -> WithBlock[DType | None]:
    """Mixed precision inside a `with` block or a decorated function, for this thread or task only.

    Each operation's room says what it does with half types:

    - `"low"`, products and convolutions: computes in `dtype`, to which float32 is cast;
    - `"high"`, sums, norms, losses, exponentials: computes in float32, to which half types are
      cast;
    - `"keep"`, all others: takes what it is given, promoted to the widest of its inputs.

    Parameters stay in float32, and so do their gradients. float64, complex numbers and integers are
    left alone. Backward passes and steps of optimizers compute in the dtypes that the forward pass
    had, wherever they are called; compiled functions are recorded once for each precision.

    Args:
        dtype: `"bfloat16"` or `"float16"`; `"float32"` or None ends mixed precision inside.

    Raises:
        DTypeError: it is another dtype.

    >>> import ingle.tensor as it
    >>> x, w = it.ones((2, 3)), it.ones((3, 4))
    >>> with it.precision("bfloat16"):
    ...     y = x @ w
    ...     y.dtype, it.softmax(y, axis=1).dtype, (y + x[:, :1]).dtype
    (bfloat16, float32, float32)
    >>> @it.precision("float16")
    ... def product(x, w):
    ...     return x @ w
    >>> product(x, w).dtype
    float16
    """
    to = None if dtype is None else as_dtype(dtype)
    if to is float32:
        to = None
    if to not in (None, float16, bfloat16):
        raise DTypeError(
            f"precision: dtype must be 'bfloat16' or 'float16', or 'float32' for none, got {to}"
        )
    used.ever = True
    return holding(low, to)


def chosen_precision() -> DType | None:
    """The half type of the innermost `with precision(...)`, or None.

    >>> import ingle.tensor as it
    >>> with it.precision("bfloat16"):
    ...     it.chosen_precision()
    bfloat16
    """
    return low.get()


def suspended() -> WithBlock[Any]:
    """Inside, operations compute in the dtypes that they are given."""
    return holding(low, None)


def suits(op: Op, inputs: Sequence[Handle | Scalar], half: DType) -> DType | None:
    """The dtype that an operation's floating inputs are to be cast to; None where none differs."""
    wanted = op.operation.traits.precision
    if wanted == "keep":
        return None
    to = half if wanted == "low" else float32
    found = {x.dtype for x in inputs if x.dtype.is_floating}
    return to if found <= _MIXED and found - {to} else None

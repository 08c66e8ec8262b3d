"""What gradients are recorded for: cells, what transforms show for them, and `require_grad`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ingle.tensor import Cell, Tensor
from ingle.tensor.blocks import WithBlock, holding
from ingle.tensor.contract import Handle
from ingle.tensor.errors import DTypeError, GradientError

from .nodes import Kept, Node, TrackedHandle
from .recording import decorator
from .residuals import (
    ResidualPolicy,
    kept_by,
    recorded_from,
    residual_policy,
)


def leaf(handle: Handle, level: int, key: object = None) -> TrackedHandle:
    """A handle that gradients are recorded for, kept by `key` or by itself."""
    if handle.owned is not None:
        handle.owned.share()  # rules keep the value; it is not written in place any more
    node = Node(())
    node.key = node if key is None else key
    return TrackedHandle(decorator(handle.backend, level), handle, node, 0)


Shown = dict["Cell[Any]", tuple[Handle, Tensor]]

# What transforms show instead of a cell's value: with the handle it stands for, since a cell that
# was written meanwhile must show what was written. And the highest level of what they show.
_shown: ContextVar[tuple[Shown, int]] = ContextVar("ingle_shown", default=({}, 0))


def lift(cell: Cell[Any], value: Any) -> Any:
    """A differentiable cell's value, tracked; as it is inside `no_grad`."""
    how = residual_policy()
    if not isinstance(value, Tensor) or how is None:
        return value
    found = _shown.get()[0].get(cell)
    if found is not None and found[0] is value._handle:
        return found[1] if found[1]._handle.backend.level >= how.least else value
    if how.least > 1:
        return value
    # What was written where it is only traced is of a higher level than what is recorded.
    return value if value._handle.backend.level else Tensor(leaf(value._handle, 1, cell))


def showing(cells: Shown) -> WithBlock[tuple[Shown, int]]:
    """Cells show the given tensors inside, as long as they hold the raw values named with them."""
    shown = {**_shown.get()[0], **cells}
    level = max([x.backend.level for _, x in shown.values()], default=0)
    return holding(_shown, (shown, level))


def shown_level() -> int:
    """The highest level of what cells show here; 0 where no transform shows anything."""
    return _shown.get()[1]


def shown_below(level: int) -> Shown:
    """What cells show here, without what is tracked at this level."""
    return {
        cell: (raw, Tensor(x._handle.inner))
        for cell, (raw, x) in _shown.get()[0].items()
        if isinstance(x._handle, TrackedHandle) and x._handle.backend.level == level
    }


def require_grad(x: Tensor) -> Tensor:
    """A tensor of the same value whose gradient `backward` will keep.

    Of one in the middle of a computation the result stands in the middle too: what is computed
    from it flows back through it.

    Raises:
        DTypeError: a dtype without gradients.
        GradientError: the tensor stands for a batch, or for none yet.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import require_grad
    >>> x = require_grad(it.asarray([3.0]))
    >>> (x**2).sum().backward()[x].tolist()
    [6.0]
    """
    if not x.dtype.is_inexact:
        raise DTypeError(
            f"require_grad: {x.dtype} tensors have no gradients; cast with x.astype('float32')"
        )
    handle = x._handle
    if isinstance(handle, TrackedHandle):
        if handle.node.key is not None:
            return x
        kept = Kept((handle.node, handle.index))
        return Tensor(TrackedHandle(handle.backend, handle.inner, kept, 0))
    if handle.backend.level:
        raise GradientError(
            "require_grad: this tensor stands for a whole batch inside of vmap, or for none yet "
            "inside of what is only traced; use grad(function)"
        )
    return Tensor(leaf(handle, 1))


def no_grad() -> WithBlock[ResidualPolicy | None]:
    """Nothing is recorded inside, for this thread or task only.

    Transforms that are called inside (`grad`, `vjp`, `jacobian` and others) record what they need
    themselves; what they return is a constant for whatever surrounds the block.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import grad, no_grad
    >>> w = it.Cell(it.ones(2), differentiable=True)
    >>> with no_grad():
    ...     y = w * 2.0
    >>> y.backend.level
    0
    >>> with no_grad():
    ...     slope = grad(lambda x: x * x)(it.asarray(3.0))
    >>> slope.item()
    6.0
    """
    return kept_by(None)


def is_recording() -> bool:
    """Whether operations are recorded here: False inside `no_grad`.

    >>> from ingle.autodiff import is_recording, no_grad
    >>> with no_grad():
    ...     inside = is_recording()
    >>> is_recording(), inside
    (True, False)
    """
    return recorded_from() is not None

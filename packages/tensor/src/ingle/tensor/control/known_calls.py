"""Functions of tensors alone as one operation each, which is traced once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from ..contract import Aval
from ..dispatch import TensorLike, handle_of, run, watched, wrap
from ..dtypes import default_float, default_int
from ..operation import Op
from ..precision import chosen_precision
from ..programs import writing_down
from ..tensor import Tensor
from ._rules import program_of
from .calling import region

Known = Callable[..., "tuple[Tensor, ...]"]
_known: dict[object, Op] = {}
_shapes: dict[object, int] = {}
_LIMIT = 1024
SHAPES = 4
"""So many shapes of a function's tensors are traced for equal facts. Where each call has another
one, what is inside is recorded as it was written: logs that differ in sizes share their plans."""


def call_known(
    function: Known,
    facts: Hashable,
    given: Sequence[TensorLike],
    name: str,
    *,
    otherwise: Callable[[], tuple[Tensor, ...]] | None = None,
) -> tuple[Tensor, ...]:
    """`function(facts, *given)` as one operation, which is traced once for all calls alike.

    Alike are calls of equal facts, shapes and dtypes; of many shapes, those of the first ones. So
    what the function returns must follow from its arguments: it closes over nothing that changes,
    reads no cell and draws no number.

    Args:
        function: takes the facts and tensors, and returns tensors.
        facts: whatever else it depends on.
        given: the tensors.
        name: of the operation.
        otherwise: gives the same where it is not traced, if that has a shorter way.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.control.known_calls import call_known
    >>> def scaled(times, x):
    ...     print("traced")
    ...     return (x * times,)
    >>> [call_known(scaled, 3.0, [it.asarray(x)], "scaled")[0].item() for x in (1.0, 2.0)]
    traced
    [3.0, 6.0]
    """
    handles = [handle_of(x, name, f"operand {i}") for i, x in enumerate(given)]
    where = handles[0].backend.device
    written = otherwise or (lambda: function(facts, *map(wrap, handles)))
    if writing_down() or watched() or any(h.backend.device is not where for h in handles):
        # As it was written: for who looks at each operation, or names devices that differ.
        return written()
    avals = tuple([Aval(h.shape, h.dtype) for h in handles])
    kind = (function, facts, where, chosen_precision(), default_float(), default_int())
    key = (kind, avals)
    op = _known.get(key)
    if op is None:
        count = _shapes.get(kind, 0)
        if count >= SHAPES:
            return written()
        program = program_of(lambda *tensors: function(facts, *tensors), avals, where)
        if len(_known) >= _LIMIT:
            _known.clear()
            _shapes.clear()
        op = _known[key] = region(program, name)
        _shapes[kind] = count + 1
    return run(op, handles)

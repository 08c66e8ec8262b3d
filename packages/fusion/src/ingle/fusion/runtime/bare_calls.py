"""Calls as launches have them: without the values and nodes that they are of.

Where an operand lies, a launch's pointers say. What is left is the same for all layers that are
alike, and is one object for all of them: what is made of it is made once.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from ingle.tensor.contract import Scalar
from ingle.tensor.operation import typed_key

from ..lowering.contraction import ContractionCall
from ..lowering.nests import NestCall
from ..schedule.schedule import Call, arguments_of, of_values
from ..schedule.whole_calls import WholeCall

_VALUES = frozenset({"arguments", "a", "b", "operands", "scalars", "nodes"})
"""The fields of calls that name values and nodes."""


class BareCalls:
    """Calls of one plan without values and nodes, each once."""

    def __init__(self) -> None:
        self._by_parts: dict[tuple[int, ...], Call | WholeCall] = {}
        self._bare: dict[Any, Call | WholeCall] = {}

    def of(self, call: Call | WholeCall) -> Call | WholeCall:
        """A call, which has to live as long as this, without values and nodes."""
        # Calls that were written again for other layers have their parts in common: most are known
        # by these without a look at code.
        parts = (
            *map(id, _REST[type(call)](call)), len(call.scalars),
            *[id(part) for argument in arguments_of(call) for part in argument[1:]],
        )  # fmt: skip
        found = self._by_parts.get(parts)
        if found is None:
            bare = _bare(call)
            found = self._by_parts[parts] = self._bare.setdefault(_key(bare), bare)
        return found


def _rest(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Gets the other fields of a call."""
    return itemgetter(*[n for n, name in enumerate(kind._fields) if name not in _VALUES])


_REST = {kind: _rest(kind) for kind in (NestCall, ContractionCall, WholeCall)}


def _bare(call: Call | WholeCall) -> Call | WholeCall:
    given = [argument._replace(root=0) for argument in arguments_of(call)]
    return of_values(call, given, tuple(range(len(call.scalars))), ())


def _key(bare: Call | WholeCall) -> Any:
    """By what calls are alike: numbers by their values, since each is an object of its own."""
    if not isinstance(bare, WholeCall):
        return bare
    numbers = [(x.dtype, typed_key(x.value)) if isinstance(x, Scalar) else x for x in bare.numbers]
    return bare._replace(numbers=()), *numbers

"""Gradient rules that come again in a function that is compiled: what they come to is known.

A model of many equal layers goes back through equal steps, and a function that is compiled does so
twice. What a rule asks for follows from the operation with its attributes and numbers, and from
shapes and dtypes. So the operations of the third of equal steps, and of those that follow, are
recorded without the rule, as the rule would ask for them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.tensor import Tensor
from ingle.tensor.call_steps import CallSteps
from ingle.tensor.contract import Backend, Handle, Scalar
from ingle.tensor.dispatch import watched, wrap
from ingle.tensor.dtypes import changed, others
from ingle.tensor.followed import is_followed
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.operation import typed_key
from ingle.tensor.probing import steps_of

if TYPE_CHECKING:
    from .nodes import Node

Cotangents = Sequence["Tensor | None"]

SEEN = 2
"""Equal steps that go by their rules: to find out what a rule comes to takes longer than that."""
_LIMIT = 1024


class _KnownRule(NamedTuple):
    """What a step comes to, on its cotangents and what it keeps.

    Attributes:
        steps: the operations, and which of their results are cotangents of inputs.
        results: for each input of the step which one of these is its cotangent; `~n` if it is `n`
            of what is given, None if there is none.
    """

    steps: CallSteps
    results: tuple[int | None, ...]


_known: dict[Any, _KnownRule | None] = {}
_seen: dict[Any, int] = {}


def knows_rules(base: Backend) -> bool:
    """Whether steps over a backend may be known: where a function is recorded to be compiled."""
    defers = getattr(base, "defers", None)
    if defers is None or defers() or sys.is_finalizing():
        return False
    return not watched() and not (changed.ever and others.get())


def pulled(node: Node, cotangents: Cotangents, base: Backend) -> Cotangents:
    """`node.pull(cotangents, False)`.

    Args:
        base: records the operations; see `knows_rules`.
    """
    given = [g._handle for g in cotangents if g is not None]
    numbers: list[Any] = []  # None for what is none: one of two operands without axes may be
    for x in node.kept_values():
        if type(x) is not Scalar:
            given.append(x)  # type: ignore[arg-type]
            numbers.append(None)
        elif is_followed(x.value):
            return node.pull(cotangents, False)
        else:
            numbers.append(typed_key(x.value))
    for handle in given:
        if handle.backend is not base:  # of another transform or device
            return node.pull(cotangents, False)
    identity = node.identity()
    if identity is None:
        return node.pull(cotangents, False)
    key = identity, tuple([g is None for g in cotangents]), tuple(numbers)
    found = _known.get(key)
    if found is None:
        if key not in _known:
            _note(key, node, cotangents, base)
        return node.pull(cotangents, False)
    steps = found.steps
    values: list[Handle | Scalar] = [*given, *steps.constants]
    for op, places in steps.steps:
        values += base.execute(op, [values[n] for n in places])
    made: Sequence[Any] = [values[n] for n in steps.outputs]
    return [None if n is None else wrap(made[n] if n >= 0 else given[~n]) for n in found.results]


def _note(key: Any, node: Node, cotangents: Cotangents, base: Backend) -> None:
    """Takes notice of a step that is not known; one of many equal ones is, from then on."""
    seen = _seen.get(key, 0)
    if len(_seen) >= _LIMIT:
        _seen.clear()
        _known.clear()
    _seen[key] = seen + 1
    if seen < SEEN:
        return
    try:
        # What rules of others come to may hang on anything.
        _known[key] = _found(node, cotangents, base) if node.is_own() else None
    except Exception as error:  # what is wrong with the rule, it will say itself
        if is_from_outside(error):
            raise
        _known[key] = None


def _found(node: Node, cotangents: Cotangents, base: Backend) -> _KnownRule | None:
    """What a step comes to; None if that is no operation at all.

    Raises:
        Exception: a rule makes a tensor of numbers, or takes one from elsewhere.
    """
    results: list[int | None] = []

    def pull(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = [x._handle for x in tensors]
        rest = iter(tensors)
        stood = [None if g is None else next(rest) for g in cotangents]
        kept = [x if type(x) is Scalar else next(rest)._handle for x in node.kept_values()]
        other = node.keeping(kept, node.parents)
        made: list[Tensor] = []
        for g in other.pull(stood, False):
            if g is None:
                results.append(None)
                continue
            place = next((n for n, h in enumerate(given) if h is g._handle), None)
            results.append(len(made) if place is None else ~place)
            if place is None:
                made.append(g)
        return tuple(made)

    kept = [Tensor(x) for x in node.kept_values() if type(x) is not Scalar]  # type: ignore[arg-type]
    args = (*(g for g in cotangents if g is not None), *kept)
    steps = steps_of(base, pull, args, {}, weak=False)
    return None if steps is None else _KnownRule(steps, tuple(results))

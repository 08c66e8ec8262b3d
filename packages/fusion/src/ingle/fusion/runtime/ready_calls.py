"""Single operations that run as they come: found once for their operands, then called straight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from ingle.tensor.call_steps import CallSteps
from ingle.tensor.contract import Backend, Handle, Scalar, capability
from ingle.tensor.device import call_staged
from ingle.tensor.operation import Op, infer

from ..record.log import LazyHandle
from .custom_kernels import forget_at_registrations

MOST = 2048
"""Operations on certain operands that are kept."""
ASKED = 8
"""So often the backend is asked for a call of an operation that it runs again and again."""

_facts_of = attrgetter("shape", "dtype")
Key: TypeAlias = tuple[Any, ...]
Call: TypeAlias = Callable[[Op, Sequence[Handle | Scalar]], "Sequence[Handle] | None"]


class ReadyCalls:
    """The calls that a backend has ready, where it has the capability `ready`.

    Whatever is decided on the way to a kernel follows from the operation and from shapes and
    dtypes, so it need not be decided again.

    Args:
        backend: which runs them.

    Attributes:
        known: by `key_of`.
        version: another object whenever one of these has gone, or is another one.
        newest: another object also where one is new.
    """

    def __init__(self, backend: Backend) -> None:
        self.known: dict[Key, Call] = {}
        self.version, self.newest = object(), object()
        self._asked: dict[Key, int] = {}
        self._backend: Any = backend
        self._has_some = capability(backend, "ready")
        forget_at_registrations(self)

    def forget(self) -> None:
        """Asks the backend anew for every call."""
        self.known.clear()
        self._asked.clear()
        self.version, self.newest = object(), object()

    def has_none(self, key: Key) -> bool:
        """Whether the backend was asked for a call as often as it is, and has none."""
        return self._asked.get(key) == ASKED and key not in self.known

    def run(self, op: Op, inputs: Sequence[Handle | Scalar], key: Key) -> Sequence[Handle]:
        """Runs an operation that has no call, or whose call does not take these operands."""
        below = self._backend
        found: Sequence[Handle]
        if op.operation.body is None:
            found = below.execute(op, inputs)
        else:
            # What the body creates belongs below, too.
            found = call_staged(below, below.execute, op, inputs)
        if self._has_some:
            self._ask(op, inputs, key)
        return found

    def _ask(self, op: Op, inputs: Sequence[Handle | Scalar], key: Key) -> None:
        if self.has_none(key):
            return
        if len(self._asked) >= MOST:
            self.forget()
        self._asked[key] = min(self._asked.get(key, 0) + 1, ASKED)
        call, before = self._backend.ready(op, inputs), self.known.get(key)
        if call == before:  # it takes other operands than these
            return
        if call is None:
            self.known.pop(key, None)
        else:
            self.known[key] = call
        if before is not None:
            self.version = object()
        self.newest = object()


def key_of(op: Op, inputs: Sequence[Handle | Scalar]) -> Key:
    """What decides how an operation runs: whatever its operands are of the same key, it is alike.

    Operands are told apart by class, too: numbers from tensors without axes.
    """
    # Most have one or two operands, for which a key is written out.
    if len(inputs) == 2:
        a, b = inputs
        return (op, a.shape, a.dtype, type(a), b.shape, b.dtype, type(b))
    if len(inputs) == 1:
        (x,) = inputs
        return (op, x.shape, x.dtype, type(x))
    return (op, *map(_facts_of, inputs), *map(type, inputs))


def keys_of(steps: CallSteps, values: Sequence[Handle | Scalar]) -> Iterator[Key]:
    """The keys of the operations of a call.

    Args:
        steps: the operations.
        values: the first of their values: handles and numbers.
    """
    known = list(values)
    for op, places in steps.steps:
        inputs = [known[n] for n in places]
        yield key_of(op, inputs)
        for aval in infer(op, inputs):
            result = LazyHandle.__new__(LazyHandle)
            result.shape, result.dtype = aval
            known.append(result)

"""Backward passes that come again: each is a program where operations are only recorded.

A training loop goes back through an equal recording at every step. Its gradient rules do the same
each time, so the second pass through equal steps is traced as a program, and from then on the
backend gets this program, on the values that the steps kept. It records what the rules would ask
for, in their order, so that nobody sees by which of the two ways a pass went.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ingle.tensor import Tensor
from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.control.calling import region
from ingle.tensor.dtypes import DType
from ingle.tensor.errors import IngleError
from ingle.tensor.operation import Op
from ingle.tensor.programs import tracing
from ingle.tensor.tape import Tape

from .nodes import Node, TrackedHandle
from .residuals import KEEP_ALL, kept_by

if TYPE_CHECKING:
    from .recording import Autodiff

Roots: TypeAlias = "Sequence[tuple[TrackedHandle, Tensor | None]]"
Gradients: TypeAlias = dict[object, Tensor]
Plain: TypeAlias = "Callable[[Sequence[Node], Roots], Gradients]"

FEW = 4
"""Steps up to which a pass is quicker gone through than looked up."""
_LIMIT = 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """A backward pass as a program.

    Attributes:
        op: from the recording's values, and some numbers, to gradients.
        numbers: computes these numbers from the recording's; None for others than it was made for.
        dtypes: theirs.
        keys: for each result whose gradient it is.
    """

    op: Op
    numbers: Callable[..., tuple[Any, ...] | None]
    dtypes: tuple[DType, ...]
    keys: tuple[int, ...]


_known: dict[Any, _Pass | None] = {}
_seen: set[Any] = set()


def cached_backward(nodes: Sequence[Node], roots: Roots, plain: Plain) -> Gradients | None:
    """The gradients by key, by a program; None where the pass has to be gone through.

    Args:
        nodes: everything below the roots, the latest first.
        roots: handles of one level with their cotangents, None for ones.
        plain: goes through a pass.
    """
    level = roots[0][0].backend
    defers, expand = getattr(level.inner, "defers", None), getattr(level.inner, "expand", None)
    if defers is None or expand is None or len(nodes) <= FEW or not defers():
        return None
    recording = _Recording(level)
    signature = recording.signature(nodes, roots)
    if signature is None:
        return None
    if signature not in _known:
        if signature not in _seen:
            if len(_seen) >= _LIMIT:
                _seen.clear()
                _known.clear()
            _seen.add(signature)
            return None
        _known[signature] = recording.written_down(nodes, roots, plain)
    found = _known[signature]
    if found is None:
        return None
    numbers = found.numbers(*recording.numbers)
    if numbers is None:
        return None
    keys = recording.keys
    scalars = [Scalar(n, dtype) for n, dtype in zip(numbers, found.dtypes, strict=True)]
    handles = expand(found.op, [*recording.values, *scalars])
    return {keys[k]: Tensor(h) for k, h in zip(found.keys, handles, strict=True)}


class _Recording:
    """The values and keys of a recording, by their order, and what it is without them.

    Attributes:
        values: the cotangents, then what the steps keep; each once.
        numbers: those that the steps keep, each time that one does: which of them are one object
            follows from their values, as that of an index is the same wherever it is 0.
        keys: what gradients are kept by.
    """

    def __init__(self, level: Autodiff) -> None:
        self._level = level
        self._base: Backend = level.inner
        self.values: list[Handle] = []
        self.numbers: list[Any] = []
        self.keys: list[object] = []
        self._value_places: dict[int, int] = {}
        self._key_places: dict[object, int] = {}

    def signature(self, nodes: Sequence[Node], roots: Roots) -> Any | None:
        """Equal for recordings through which the same computation goes back.

        None where that can't be told: steps of other kinds than operations, or other levels.
        """
        places: dict[Node, int] = {}
        for node in nodes:
            places[node] = len(places)
        parts: list[Any] = []
        for handle, g in roots:
            if g is None:
                parts.append((places[handle.node], handle.index))
                continue
            if g._handle.backend is not self._base:
                return None
            parts.append((places[handle.node], handle.index, self._value(g._handle)))
        for node in nodes:
            key = None if node.key is None else self._key(node.key)
            identity = node.identity()
            if identity is None:
                return None
            kept: list[Any] = []
            for x in node.kept_values():
                if isinstance(x, Scalar):
                    self.numbers.append(x.value)
                    kept.append((type(x.value), x.dtype))
                elif x.backend is self._base:
                    kept.append(self._value(x))
                else:
                    return None
            parents = [None if p is None else (places[p[0]], p[1]) for p in node.parents]
            parts.append((identity, key, tuple(parents), tuple(kept)))
        return tuple(parts)

    def _value(self, handle: Handle) -> int:
        place = self._value_places.get(id(handle))
        if place is None:
            place = self._value_places[id(handle)] = len(self.values)
            self.values.append(handle)
        return place

    def _key(self, key: object) -> int:
        place = self._key_places.get(key)
        if place is None:
            place = self._key_places[key] = len(self.keys)
            self.keys.append(key)
        return place

    def written_down(self, nodes: Sequence[Node], roots: Roots, plain: Plain) -> _Pass | None:
        """The pass as a program.

        None if a rule reads values, or takes tensors from elsewhere, which may be others next time.
        """
        tape = Tape()
        try:
            with kept_by(KEEP_ALL), tracing(self._level.device, making=True) as tracer:
                tape.writer = tracer
                values = [tracer.input(Aval(x.shape, x.dtype)) for x in self.values]
                numbers = [tape.input(n) for n in self.numbers]
                found = plain(*self._on(values, numbers, nodes, roots))
                program, closed = tracer.program(list(found.values()))
        except IngleError:
            return None
        scalars = [x for x in closed if isinstance(x, Scalar)]
        if len(scalars) < len(closed):
            return None
        followed: list[Any] = [x.value for x in scalars]
        return _Pass(
            region(program, "backward"),
            tape.program(followed),
            tuple([x.dtype for x in scalars]), tuple([self._key_places[k] for k in found]),
        )  # fmt: skip

    def _on(
        self, values: Sequence[Tensor], numbers: Sequence[Any], nodes: Sequence[Node], roots: Roots
    ) -> tuple[list[Node], Roots]:
        """The recording with other values."""

        rest = iter(numbers)

        def other(x: Any) -> Any:
            if type(x) is Scalar:
                return Scalar(next(rest), x.dtype)
            return values[self._value_places[id(x)]]._handle

        kept = [[other(x) for x in node.kept_values()] for node in nodes]  # in their order
        known: dict[Node, Node] = {}
        for node, others in zip(reversed(nodes), reversed(kept), strict=True):
            parents = [None if p is None else (known[p[0]], p[1]) for p in node.parents]
            known[node] = node.keeping(others, parents)
        given: list[tuple[TrackedHandle, Tensor | None]] = []
        for h, g in roots:
            handle = TrackedHandle(h.backend, h.inner, known[h.node], h.index)
            given.append((handle, None if g is None else Tensor(other(g._handle))))
        return [known[n] for n in nodes], given

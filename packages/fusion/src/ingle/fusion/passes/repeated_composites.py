"""Composites that come again are copied: a body of Python runs once for operands of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.followed import is_followed
from ingle.tensor.operation import Op, typed_key

from ..record.log import LazyHandle, Log


class Mark(NamedTuple):
    """How far a log was."""

    entries: int
    values: int
    given: int
    numbers: int


class _Copy(NamedTuple):
    """What a body wrote down. Places are those of tensor operands, then of `before`, then its own.

    Attributes:
        entries: heads of entries, with the places of what they take; None for a number.
        numbers: the values of its numbers.
        before: values that were there before, which are numbers.
        own: how many values it made.
        results: places, shapes and dtypes.
    """

    entries: Sequence[tuple[Any, Sequence[int] | None]]
    numbers: Sequence[Any]
    before: Sequence[int]
    own: int
    results: Sequence[tuple[int, Aval]]


class Copies:
    """What bodies wrote into a log.

    Args:
        log: whose numbers of the code are in `known`, by key.
    """

    def __init__(self, log: Log, known: dict[Any, int]) -> None:
        self._log = log
        self._known = known
        self._found: dict[Any, _Copy] = {}

    def mark(self) -> Mark:
        """How far the log is now."""
        r = self._log
        return Mark(len(r.written), r._count, len(r.given), len(r.numbers))

    def key(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Any:
        """Equal for operations that write the same; None if nothing is known of an operand."""
        places: dict[int, int] = {}
        parts: list[Any] = [op]
        for x in inputs:
            if isinstance(x, Scalar):
                value: Any = x.value
                number = (value.tape, value.name) if is_followed(value) else typed_key(value)
                parts.append((number, x.dtype))
            elif type(x) is LazyHandle and x.pending_in is self._log:
                place = places.setdefault(x.number, len(places))
                parts.append((place, x.shape, x.dtype))
            else:
                return None
        return tuple(parts)

    def written(self, key: Any, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...] | None:
        """Writes again what is known of the key; None if nothing is."""
        copy = self._found.get(key) if key is not None else None
        if copy is None:
            return None
        log = self._log
        count = log._count
        values = [*_numbers(inputs), *copy.before, *range(count, count + copy.own)]
        entries = log.written
        for head, args in copy.entries:
            entries.append(head if args is None else (head, *[values[a] for a in args]))
        log.numbers += copy.numbers
        log._count = count + copy.own
        made = tuple([LazyHandle(log.backend, aval, log, values[n]) for n, aval in copy.results])
        log._handles += map(ref, made)
        return made

    def keep(
        self, key: Any, inputs: Sequence[Handle | Scalar], mark: Mark, made: Sequence[Handle]
    ) -> None:
        """Notes what was written since a mark, if it is nothing but operations and numbers."""
        log, now = self._log, self.mark()
        if key is None or now.given != mark.given:
            return
        known = set(self._known.values())
        written = log.written[mark.entries :]
        # The first of its kind may have brought numbers of the code, which the next ones find.
        brought = {n for n in known if n >= mark.values}
        if [e[0] for e in written].count("constant") != len(brought):
            return  # numbers that are followed are brought, too
        taken = [
            (e[0], e[1:]) if isinstance(e[0], Op) else (e, None)
            for e in written
            if e[0] != "constant"
        ]
        tensors = _numbers(inputs)
        place = {number: i for i, number in enumerate(tensors)}
        before: list[int] = []
        results = [h.number for h in made if type(h) is LazyHandle and h.pending_in is log]
        used = [n for _, args in taken for n in args or ()]
        for number in (*used, *results):
            if (number < mark.values or number in brought) and number not in place:
                place[number] = len(place)
                before.append(number)
        if len(results) < len(made) or not known.issuperset(before):
            return
        own = [n for n in range(mark.values, now.values) if n not in brought]
        places = {**place, **{n: k for k, n in enumerate(own, len(place))}}
        self._found[key] = _Copy(
            [(head, args and [places[a] for a in args]) for head, args in taken],
            log.numbers[mark.numbers :], before, len(own),
            [(places[h.number], Aval(h.shape, h.dtype)) for h in made],  # type: ignore[attr-defined]
        )  # fmt: skip

    def forget(self, count: int) -> None:
        """Values from this one on are no more."""
        self._found = {k: c for k, c in self._found.items() if max(c.before, default=-1) < count}


def _numbers(inputs: Sequence[Any]) -> list[int]:
    """Those of the tensors among some operands, each once."""
    return list(dict.fromkeys([x.number for x in inputs if not isinstance(x, Scalar)]))

"""The epoch of structure: one number that says whether modules are as they were.

Recordings that were made of a module (plans of `compile`) hold while this number is what it was, so
that a replay checks one integer. Assigning or deleting any attribute of any module, train/eval,
freezing, and changing a container move it: a plain attribute counts too, since a layer's `eps` is
a constant of what was recorded. Values of cells do not count.

Flags, whole numbers and names leave marks: a random number for each owner, attribute and value,
all of which are combined. So the epoch comes back when every such attribute has its old value
again, as after `eval()` and `train()`. Whatever else changes moves it to where it never was.
"""

from __future__ import annotations

import sys
from random import SystemRandom
from typing import Any, Never
from weakref import ref

from .locks import renewed

owners: list[type] = []
"""The classes whose instances move the epoch: who records what they hold need not compare it."""

_bits = SystemRandom().getrandbits
_epoch = 0
_lock = renewed(sys.modules[__name__], "_lock")
_marks: dict[int, tuple[ref[object], dict[object, int]]] = {}
_MOST = 256
"""Values of one owner that are told apart; a counter among its attributes takes one each."""
_most_owners = 1024
_SIMPLE = frozenset({bool, int, str, type(None)})


def epoch() -> int:
    """The number now; two equal answers mean that modules are at both times the same."""
    return _epoch


def changed() -> None:
    """Moves the epoch for good; for classes that keep modules outside of attributes."""
    _move(_bits(128))


def assigned(owner: object, name: str, old: object, new: object) -> None:
    """Moves the epoch since an attribute has another value, which may be taken back.

    >>> from ingle.tensor import structure
    >>> class Thing: pass
    >>> thing, before = Thing(), structure.epoch()
    >>> structure.assigned(thing, "flag", True, False)
    >>> structure.epoch() == before
    False
    >>> structure.assigned(thing, "flag", False, True)
    >>> structure.epoch() == before
    True
    """
    if type(old) not in _SIMPLE or type(new) not in _SIMPLE:
        changed()
    elif type(old) is not type(new) or old != new:
        with _lock:
            marks = _marks_of(owner)
            bits = [marks.setdefault((name, type(v), v), _bits(128)) for v in (old, new)]
        _move(bits[0] ^ bits[1])


class Frozen(dict[Any, Any]):
    """A dict that never changes, so that who records it need not look into it.

    >>> from ingle.tensor.structure import Frozen
    >>> names = Frozen(a=1)
    >>> names["a"]
    1
    >>> names["b"] = 2
    Traceback (most recent call last):
        ...
    TypeError: this dict never changes; make another one: {**old, name: value}
    """

    def _refused(self, *args: Any, **kwargs: Any) -> Never:
        raise TypeError("this dict never changes; make another one: {**old, name: value}")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refused

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (dict(self),)


class Structured:
    """A base for classes besides modules whose attributes are constants of what is recorded.

    >>> from ingle.tensor import structure
    >>> class Clipping(structure.Structured):
    ...     def __init__(self, most):
    ...         self.most = most
    >>> clipping = Clipping(1)
    >>> before = structure.epoch()
    >>> clipping.most = 2
    >>> structure.epoch() == before
    False
    """

    def __setattr__(self, name: str, value: Any) -> None:
        old = vars(self).get(name, self)
        object.__setattr__(self, name, value)
        assigned(self, name, old, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        changed()


def _marks_of(owner: object) -> dict[object, int]:
    # By identity: parameters compare elementwise.
    place = id(owner)
    found = _marks.get(place)
    if found is None or found[0]() is not owner:
        found = _marks[place] = (ref(owner), {})
        if len(_marks) > _most_owners:
            _forget_the_dead()
    if len(found[1]) > _MOST:
        found[1].clear()
    return found[1]


def _forget_the_dead() -> None:
    global _most_owners
    for place in [k for k, (owner, _) in _marks.items() if owner() is None]:
        del _marks[place]
    _most_owners = max(1024, 2 * len(_marks))


def _move(bits: int) -> None:
    global _epoch
    with _lock:
        _epoch ^= bits

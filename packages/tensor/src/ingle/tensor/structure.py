"""The epoch of structure: one number that says whether modules are as they were.

Recordings that were made of a module (plans of `compile`) hold while this number is what it was, so
that a replay checks one integer. Assigning or deleting any attribute of any module, train/eval,
freezing, and changing a container move it: a plain attribute counts too, since a layer's `eps` is
a constant of what was recorded. Values of cells do not count.

Flags, whole numbers and names leave marks: a random number for each owner, attribute and value,
all of which are combined. So the epoch comes back when every such attribute has its old value
again, as after `eval()` and `train()`. Whatever else changes moves it to where it never was.

Who asks for the `__dict__` of such an object, as `vars` does, may write there, and nobody would be
told. So what is in it is compared from there on, for as long as anybody else has it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Never
from weakref import ref

from .locks import renewed

owners: list[type] = []
"""The classes whose instances move the epoch: who records what they hold need not compare it."""

_epoch = 0
_lock = renewed(sys.modules[__name__], "_lock")
_marks: dict[int, tuple[ref[object], dict[object, int]]] = {}
_MOST = 256
"""Values of one owner that are told apart; a counter among its attributes takes one each."""
_most_owners = 1024
_SIMPLE = frozenset({bool, int, str, type(None)})


def epoch() -> int:
    """The number now; two equal answers mean that modules are at both times the same."""
    if _handed_out:
        _compare()
    return _epoch


def changed() -> None:
    """Moves the epoch for good; for classes that keep modules outside of attributes."""
    _move(_mark())


def _mark() -> int:
    """A number that no other thing has."""
    return int.from_bytes(os.urandom(16), "little")


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
            bits = [marks.setdefault((name, type(v), v), _mark()) for v in (old, new)]
        _move(bits[0] ^ bits[1])


class Frozen(dict[Any, Any]):
    """A dict that never changes, so that a recording need not look into it.

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


class _Attributed:
    """Has attributes in a dict."""


attributes: Callable[[Any], dict[str, Any]] = vars(_Attributed)["__dict__"].__get__
"""The `__dict__` of a `Watched` object, for reads, and for writes that are announced."""


def attributes_of(thing: Any) -> dict[str, Any]:
    """The attributes of any object, to be read; none of one without a `__dict__`."""
    return attributes(thing) if isinstance(thing, _Attributed) else getattr(thing, "__dict__", {})


class Watched(_Attributed):
    """A base for classes that move the epoch, whose `__dict__` others may write to.

    Attributes:
        _announced: attributes that hold what can be changed in place, and move the epoch whenever
            that happens, so that nobody need compare them.

    >>> from ingle.tensor import structure
    >>> class Thing(structure.Watched): pass
    >>> thing, before = Thing(), structure.epoch()
    >>> vars(thing)["flag"] = True
    >>> structure.epoch() == before
    False
    """

    _announced: ClassVar[frozenset[str]] = frozenset()

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        if len(_handed_out) >= _MOST_HANDED_OUT:
            _compare()
        held = attributes(self)
        _handed_out.append(_seen(self, held))
        return held

    def __setstate__(self, state: Any) -> None:
        """Copies and what is unpickled are new: nobody has recorded what they hold."""
        own, slots = state if isinstance(state, tuple) else (state, None)
        held = attributes(self)
        if held:
            changed()
        held.update(own or {})
        for name, value in (slots or {}).items():
            object.__setattr__(self, name, value)


class _HandedOut(NamedTuple):
    """What was in a `__dict__` when somebody asked for it.

    Attributes:
        owner: whose it is.
        values: by name what finds each, without keeping alive what is large.
    """

    owner: ref[Watched]
    values: dict[str, Callable[[], Any]]

    def differs(self, held: dict[str, Any]) -> bool:
        """Whether anything else is in it now."""
        if held.keys() != self.values.keys():
            return True
        return any(held[name] is not find() for name, find in self.values.items())


_handed_out: list[_HandedOut] = []
_MOST_HANDED_OUT = 32
"""So many are compared when another one is asked for."""


def _seen(owner: Watched, held: dict[str, Any]) -> _HandedOut:
    return _HandedOut(ref(owner), {name: _finding(value) for name, value in held.items()})


def _finding(value: Any) -> Callable[[], Any]:
    try:
        return ref(value)
    except TypeError:
        return lambda: value


def _holders(owner: Any) -> int:
    """How many references there are to an object's `__dict__`, those of counting included."""
    return sys.getrefcount(attributes(owner))


_ALONE = _holders(Watched())


def _compare() -> None:
    """Moves the epoch if a `__dict__` was written to; forgets those that nobody has any more."""
    known = _handed_out[:]
    kept: dict[int, _HandedOut] = {}
    for each in known:
        owner = each.owner()
        if owner is None:
            continue
        if each.differs(attributes(owner)):
            changed()
        if _holders(owner) > _ALONE:
            kept[id(owner)] = _seen(owner, attributes(owner))
    done = {*map(id, known)}
    with _lock:
        _handed_out[:] = [e for e in _handed_out if id(e) not in done] + [*kept.values()]


class Structured(Watched):
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
        old = attributes(self).get(name, self)
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


owners.append(Structured)

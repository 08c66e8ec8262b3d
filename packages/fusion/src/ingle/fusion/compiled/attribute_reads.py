"""Guards on attributes: what a recorded function read of objects, compared in later calls.

Modules say when an attribute is assigned; what changes within a list, an array or a tensor that a
module keeps, they do not know. Objects among the arguments say nothing at all. So their classes
get a `__getattribute__` while a function is recorded, which notes what the function reads of them,
and later calls look at that and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from functools import lru_cache
from types import MemberDescriptorType
from typing import Any, NamedTuple
from weakref import ref

from ingle.tensor import Tensor
from ingle.tensor.blocks import block, holding, of_values
from ingle.tensor.locks import renewed
from ingle.tensor.structure import attributes_of, owners

from .snapshots import Snapshot, content, is_users, name_of, stays

_MISSING = object()
_IMMUTABLE_TYPE = 1 << 8
_watching: ContextVar[AttributeWatch | None] = of_values(ContextVar("ingle_watching", default=None))

Promise = Callable[[Tensor, "Place"], Tensor | None]
"""A tensor that stands for what a place holds; None where it has to stay what it is."""


class Place(NamedTuple):
    """A leaf of a call's arguments, or an attribute of one, or of that in turn."""

    leaf: int
    names: tuple[str, ...] = ()

    def attribute(self, name: str) -> Place:
        return Place(self.leaf, (*self.names, name))

    def find(self, leaves: Sequence[Any]) -> Any:
        """What is there."""
        found = leaves[self.leaf]
        for name in self.names:
            found = getattr(found, name, None)
        return found


class Itself:
    """An object that is no argument, wherever it came from."""

    def __init__(self, thing: object) -> None:
        self._thing: Callable[[], object]
        try:
            self._thing = ref(thing)
        except TypeError:
            self._thing = lambda: thing

    def find(self, leaves: Sequence[Any]) -> Any:
        """The object; None if it is no more."""
        return self._thing()


Path = Place | Itself


class Shown(NamedTuple):
    """A tensor that an attribute showed while it was recorded, in place of its own."""

    place: Place
    owner: Any
    name: str
    own: Tensor
    promise: Tensor


class Reading:
    """A guard on an attribute: the recording holds while it has the value that it had."""

    __slots__ = ("_name", "_owner", "_seen", "told")

    def __init__(self, owner: Path, name: str, seen: Snapshot, told: str) -> None:
        self._owner, self._name, self._seen, self.told = owner, name, seen, told

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether it is so in a call with these leaves of arguments."""
        return self._seen.holds(getattr(self._owner.find(leaves), self._name, _MISSING))


class Absence:
    """A guard on a missing attribute: the recording holds while the object does not have it."""

    __slots__ = ("_name", "_owner", "told")

    def __init__(self, owner: Path, name: str, told: str) -> None:
        self._owner, self._name, self.told = owner, name, told

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether it is still missing in a call with these leaves of arguments."""
        owner = self._owner.find(leaves)
        # `getattr` would also ask the class's `__getattr__`, which answers for missing ones.
        read: Any = type(owner).__getattribute__
        try:
            read(owner, self._name)
        except AttributeError:
            return owner is not None
        return False


Noted = Reading | Absence


class AttributeWatch:
    """Notes what is read of some objects, of those that they hold, and of modules.

    Args:
        function: what is recorded; its own object counts.
        leaves: of the arguments. Tensors in their attributes are inputs as they are themselves.
        promise: makes such inputs.

    Attributes:
        shown: by owner and name the tensors in attributes of arguments that are inputs.
        readings: what else was read, each attribute once.
    """

    def __init__(self, function: Any, leaves: Sequence[Any], promise: Promise) -> None:
        self.shown: dict[tuple[int, str], Shown] = {}
        self._promise: Promise | None = promise
        self._noted: dict[tuple[int, str], Noted] = {}
        self._paths: dict[int, Path] = {}
        self._kept: list[Any] = []
        self._classes: list[type] = []
        self._busy = False
        self._function = function
        self._leaves = leaves

    @property
    def readings(self) -> list[Noted]:
        return list(self._noted.values())

    @block
    def active(self) -> Generator[None, Any, None]:
        """Notes what this thread reads within the block."""
        with holding(_watching, self):
            try:
                for kind in owners:
                    self._hook(kind)
                found: list[Any] = []
                content(self._function, found)  # a method's object, or one that is called
                for place, leaf in enumerate(self._leaves):
                    self._reach(leaf, Place(place))
                    content(leaf, found)
                for thing in found:
                    self._reach(thing, Itself(thing))
                yield
            finally:
                try:
                    self._end()
                except BaseException:  # Ctrl-C: it goes on when all is as it was
                    self._end()
                    raise

    def _end(self) -> None:
        """Restores the classes; called again after an interrupt, it goes on where that was."""
        while self._classes:
            _release(self._classes[-1], self)
            del self._classes[-1]
        for shown in self.shown.values():
            if getattr(shown.owner, shown.name, None) is shown.promise:  # after `o.x += 1`
                object.__setattr__(shown.owner, shown.name, shown.own)
        self._kept.clear()
        self._promise = None  # whose object has this one: what it holds is not to wait for cycles

    def read(self, owner: Any, name: str, value: Any) -> Any:
        """Notes the read of an attribute; returns the value that the function is to see."""
        path = self._paths.get(id(owner))
        if path is None and not _is_compared(owner, name):
            return value
        hidden = name.startswith("__") and (name != "__dict__" or path is None)
        if self._busy or hidden or (id(owner), name) in self._noted:
            return value
        key = id(owner), name
        if key not in self.shown:
            self._busy = True
            try:
                self._note(owner, path, name, value)
            finally:
                self._busy = False
        shown = self.shown.get(key)
        return shown.promise if shown is not None and value is shown.own else value

    def missed(self, owner: Any, name: str) -> None:
        """An attribute was asked for that is not there; a module says when it comes."""
        path = self._paths.get(id(owner))
        if path is None or self._busy or name.startswith("__") or _is_computed(owner, name):
            return
        told = f"attribute {name!r} of a {name_of(type(owner))}, which was not there,"
        self._kept.append(owner)
        self._noted.setdefault((id(owner), name), Absence(path, name, told))

    def _note(self, owner: Any, path: Path | None, name: str, value: Any) -> None:
        if path is None:
            # A module tells when an attribute of its own is assigned, and its class does not.
            if stays(value) and name in attributes_of(owner):
                return
            kind = type(owner)
            if stays(value) and _of_class(owner, name) is value is getattr(kind, name, _MISSING):
                # Once for all modules of the class.
                key = id(kind), name
                if key not in self._noted:
                    self._noted[key] = _reading(Itself(kind), kind, name, Snapshot(value))
                    self._kept.append(kind)
                return
            path = Itself(owner)
        abstract = isinstance(value, Tensor) and value._handle.abstract
        if abstract or not _is_kept(owner, name):
            return
        if isinstance(value, Tensor) and isinstance(path, Place):
            place = path.attribute(name)
            promise = None if self._promise is None else self._promise(value, place)
            if promise is not None:
                self.shown[id(owner), name] = Shown(place, owner, name, value, promise)
                return
        seen = Snapshot(value)
        self._kept.append(owner)
        self._noted[id(owner), name] = _reading(path, type(owner), name, seen)
        for thing in seen.found:
            if thing is value and isinstance(path, Place):
                self._reach(thing, path.attribute(name))
            else:
                self._reach(thing, Itself(thing))

    def _reach(self, thing: Any, path: Path) -> None:
        """Adds an object to those whose reads are noted."""
        kind = type(thing)
        if is_users(kind) and not isinstance(thing, tuple(owners)) and id(thing) not in self._paths:
            self._paths[id(thing)] = path
            self._kept.append(thing)
            self._hook(kind)

    def _hook(self, kind: type) -> None:
        if kind not in self._classes and not kind.__flags__ & _IMMUTABLE_TYPE:
            self._classes.append(kind)
            _watched(kind, self)


def _reading(path: Path, kind: type, name: str, seen: Snapshot) -> Reading:
    return Reading(path, name, seen, f"attribute {name!r} of a {name_of(kind)}")


def _is_compared(owner: Any, name: str) -> bool:
    """Whether what an attribute holds is looked at, of an object that is no argument.

    Modules say when an attribute is assigned, and not when a list in it changes. Ingle's own
    classes say that of theirs, and know nothing of what others keep in their instances.
    """
    kind: Any = type(owner)
    if not _is_module(kind) or name in kind._announced:
        return False
    return is_users(kind) or name in attributes_of(owner)


@lru_cache(maxsize=4096)
def _is_module(kind: Any) -> bool:
    return issubclass(kind, tuple(owners))


def _is_kept(owner: Any, name: str) -> bool:
    """Whether an attribute is data of an object or its class, and not computed when it is read."""
    if name == "__dict__" or name in attributes_of(owner):
        return True
    found = _of_class(owner, name)
    return found is not _MISSING and not _computes(found)


def _is_computed(owner: Any, name: str) -> bool:
    return _computes(_of_class(owner, name))


def _of_class(owner: Any, name: str) -> Any:
    return next((vars(k)[name] for k in type(owner).__mro__ if name in vars(k)), _MISSING)


def _computes(found: Any) -> bool:
    return hasattr(type(found), "__get__") and not isinstance(found, MemberDescriptorType)


class _Hook:
    """A class that notes what is read of its instances.

    Attributes:
        users: the recordings that want that.
    """

    def __init__(self, kind: Any) -> None:
        self.users: set[AttributeWatch] = set()
        self._kind = kind
        self._own = vars(kind).get("__getattribute__")
        below = kind.__getattribute__

        def read(thing: Any, name: str) -> Any:
            watch = _watching.get()
            if watch is None:
                return below(thing, name)
            try:
                value = below(thing, name)
            except AttributeError:
                watch.missed(thing, name)
                raise
            return watch.read(thing, name, value)

        self._read = read
        type.__setattr__(kind, "__getattribute__", read)

    def remove(self) -> None:
        if vars(self._kind).get("__getattribute__") is not self._read:
            return  # an earlier call was interrupted
        if self._own is None:
            type.__delattr__(self._kind, "__getattribute__")
        else:
            type.__setattr__(self._kind, "__getattribute__", self._own)


_lock = renewed(sys.modules[__name__], "_lock")
_hooks: dict[type, _Hook] = {}


def _watched(kind: type, watch: AttributeWatch) -> None:
    with _lock:
        hook = _hooks.get(kind)
        if hook is None:
            hook = _hooks[kind] = _Hook(kind)
        hook.users.add(watch)


def _release(kind: type, watch: AttributeWatch) -> None:
    with _lock:
        hook = _hooks.get(kind)
        if hook is None:
            return
        hook.users.discard(watch)
        if not hook.users:
            hook.remove()
            _hooks.pop(kind, None)

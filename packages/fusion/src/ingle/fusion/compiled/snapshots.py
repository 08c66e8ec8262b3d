"""Keys of what objects hold: objects with equal keys are recorded alike.

Tensors and numbers among the arguments are inputs of a recording. Everything else that it was made
with has to be as it was. Things that compare by identity are the same object; what can be changed
in place (lists, sets, arrays) is compared by all that it holds, each time.
"""

from __future__ import annotations

import copyreg
import dataclasses
import enum
import functools
import pickle
import sys
import threading
import types
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np

from ingle.tensor import Tensor
from ingle.tensor.cell import Cell
from ingle.tensor.dtypes import DType
from ingle.tensor.operation import typed_key
from ingle.tensor.pytree import Node
from ingle.tensor.structure import Frozen, owners

from ..errors import CompileError
from ..support.source_location import user_line

_PLAIN = frozenset({bool, int, str, bytes, type(None), type(...), type(NotImplemented), range})
_THEMSELVES = (
    Cell, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, enum.Enum,
)  # fmt: skip
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_VALUE = "compared by attributes"


class Same:
    """A key that equals itself for the same object only, and keeps alive no more than it must."""

    __slots__ = ("_place", "_thing")

    def __init__(self, thing: object) -> None:
        self._place = id(thing)
        self._thing: Callable[[], object]
        try:
            self._thing = ref(thing)
        except TypeError:
            self._thing = lambda: thing

    @property
    def thing(self) -> object:
        """The object; None if it is gone."""
        return self._thing()

    @property
    def reference(self) -> ref[object] | None:
        """What finds the thing as long as it is there; None if it is kept."""
        return self._thing if isinstance(self._thing, ref) else None

    def __hash__(self) -> int:
        return self._place

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        mine = self._thing()
        return type(other) is Same and mine is not None and mine is other._thing()


def content(x: Any, found: list[Any] | None = None) -> Hashable:
    """A key of all that a thing holds.

    Args:
        x: the thing. Objects of classes that users wrote are themselves, whatever they hold.
        found: gets these objects.

    Raises:
        CompileError: it can change, and nobody can tell; or it contains itself.
    """
    try:
        return _content(x, found)
    except RecursionError:
        raise CompileError(
            f"a {name_of(type(x))} contains itself, so that nobody can compare it with what it "
            "was before; pass what the function needs of it"
        ) from None


def _content(x: Any, found: list[Any] | None) -> Hashable:
    kind: Any = type(x)
    if kind in _PLAIN:
        return (kind, x)
    if kind is float or kind is complex:
        return typed_key(x)  # type: ignore[no-any-return]
    if kind is list or kind is tuple:
        return (kind, *[_content(v, found) for v in x])
    if isinstance(x, Tensor):
        return (Tensor, Same(x._handle))
    if isinstance(x, types.BuiltinFunctionType) and not _is_free(x):
        return (kind, x.__name__, _content(x.__self__, found))
    if isinstance(x, (*_THEMSELVES, *owners)):
        return Same(x)
    held = _held(x)
    if held is not None:
        return (kind, *[_content(v, found) for v in held])
    if isinstance(x, (set, frozenset)):
        more = getattr(x, "__dict__", None)
        return (kind, frozenset([_content(v, found) for v in x]), _content(more, found))
    if isinstance(x, (np.ndarray, np.generic)):
        values = np.asarray(x)
        if values.dtype.hasobject:
            return (kind, values.shape, *[_content(v, found) for v in values.flat])
        return (kind, values.dtype.str, values.shape, values.tobytes())
    if shows_array(x):
        return (kind, Same(x), _content(_on_host(x), found))
    if is_users(kind):
        if found is not None:
            found.append(x)
        return Same(x)
    if kind.__hash__ is not None and _compares(kind):
        # What a class of users adds to one of Python's own, such as `class Name(str)`.
        more = _content(vars(x), found) if hasattr(x, "__dict__") else None
        return (kind, x, repr(x), more)
    same = None if kind.__hash__ is None else Same(x)
    memory = _memory(x)
    if memory is not None:
        return (kind, same, memory)
    if isinstance(x, _LOCKS):
        return (kind, same, repr(x))  # which names its holder
    if same is not None and kind.__module__.partition(".")[0].startswith("ingle"):
        return same
    state = _state(x)
    if state is not None:
        return (kind, same, _content(state, found))
    raise CompileError(
        f"{user_line()}: a {name_of(kind)} cannot be compared with what it was before, so that a "
        "compiled function would not see it change; pass what it holds in a tuple or a dict, or as "
        "tensors"
    )


def _held(x: Any) -> Sequence[Any] | None:
    """What a collection of the standard library holds, in its order."""
    if isinstance(x, dict):
        factory = x.default_factory if isinstance(x, defaultdict) else None
        pairs = [part for pair in x.items() for part in pair]
        return [factory, getattr(x, "__dict__", None), *pairs]
    if isinstance(x, (list, tuple)):
        return [getattr(x, "__dict__", None), *x]
    if isinstance(x, (bytearray, memoryview)):
        return [getattr(x, "__dict__", None), bytes(x)]
    if isinstance(x, array):
        return [getattr(x, "__dict__", None), x.typecode, x.tobytes()]
    if isinstance(x, deque):
        return [getattr(x, "__dict__", None), x.maxlen, *x]
    if isinstance(x, slice):
        return [x.start, x.stop, x.step]
    if isinstance(x, functools.partial):
        return [x.func, x.args, x.keywords]
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    return [x.outline(), *x.children()] if isinstance(x, Node) else None


def _memory(x: Any) -> bytes | None:
    """The bytes of an object that shows its memory, such as those of `ctypes`."""
    try:
        return memoryview(x).tobytes()
    except TypeError:
        return None


def _state(x: Any) -> Any:
    """What `pickle` would keep of an object of Python's own or another library's: all that it
    holds, or a name, if that stands for it; None if it says that there is more.

    Such an object equals itself alone, and changes all the same: an event is set, a queue grows, an
    iterator goes on.
    """
    try:
        named = copyreg.dispatch_table.get(type(x))
        return x.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if named is None else named(x)
    except Exception:
        return None


def _is_free(function: Any) -> bool:
    """Whether a function of C is no method of an object, which may change."""
    return isinstance(function.__self__, (types.ModuleType, type, types.NoneType))


def name_of(kind: type) -> str:
    """A class as people write it."""
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def shows_array(x: Any) -> bool:
    """Whether it is an array of another library, such as a PyTorch tensor."""
    return hasattr(type(x), "__dlpack__") or hasattr(type(x), "__array__")


def _on_host(x: Any) -> np.ndarray:
    try:
        return np.asarray(x)
    except Exception as error:
        raise CompileError(
            f"{user_line()}: the values of a {name_of(type(x))} cannot be compared with what they "
            f"were before: {error}. Make it a tensor with it.asarray(x), once"
        ) from None


def is_users(kind: Any) -> bool:
    """Whether a class was written in Python outside of the standard library, NumPy and Ingle.

    All that its instances hold is then in attributes: no class that it derives from is in C.
    """
    return _is_users(kind)


@functools.lru_cache(maxsize=4096)
def _is_users(kind: Any) -> bool:
    if _is_shipped(kind.__module__):
        return False
    return next(k for k in kind.__mro__ if not k.__flags__ & _HEAP_TYPE) is object


def _is_shipped(module: str) -> bool:
    """Whether a module is of the standard library, of NumPy or of Ingle."""
    root = module.partition(".")[0]
    known = root in ("numpy", "ingle") or root in sys.stdlib_module_names
    return known or root.startswith("ingle_")


def is_value(x: Any) -> bool:
    """Whether it is of a class that users wrote and whose instances compare by their attributes."""
    kind = type(x)
    if kind in _PLAIN or not is_users(kind) or isinstance(x, (Tensor, *_THEMSELVES, *owners)):
        return False
    if _held(x) is not None or isinstance(x, (set, frozenset)) or shows_array(x):
        return False
    return dataclasses.is_dataclass(kind) or _compares(kind)


def _compares(kind: Any) -> bool:
    """Whether instances of a class say themselves which others they equal."""
    return kind.__eq__ is not object.__eq__


_HEAP_TYPE = 1 << 9
_IMMUTABLE: tuple[Any, ...] = (*_PLAIN, float, complex, np.generic, DType, *_THEMSELVES)


def stays(x: Any) -> bool:
    """Whether a thing can only be replaced, or tells when it changes: no need to look into it."""
    if isinstance(x, tuple) or type(x) is frozenset:
        return all(map(stays, x))
    if type(x) is Frozen:
        return all(map(stays, x.values()))
    if isinstance(x, types.BuiltinFunctionType):
        return _is_free(x)
    kind: Any = type(x)
    fields = _frozen_fields(kind)
    if fields is not None:
        return all(stays(getattr(x, name, None)) for name in fields)
    return isinstance(x, (*_IMMUTABLE, *owners))


@functools.lru_cache(maxsize=4096)
def _frozen_fields(kind: Any) -> tuple[str, ...] | None:
    """The fields of a frozen dataclass of Ingle's or of the standard library that has nothing
    besides, such as how a layer is quantized; None for other classes. Those of users are looked at
    by their attributes."""
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen or kind.__dictoffset__ or is_users(kind):
        return None
    return tuple([field.name for field in dataclasses.fields(kind)])


class Snapshot:
    """What a thing was, to be compared with what it is.

    Attributes:
        thing: what it is as long as it is this object: something immutable; None for others.
        ids: of a dict of immutable things, the identities of its keys and values.
        found: the objects of users' classes that it holds.
    """

    __slots__ = ("_alive", "_key", "found", "ids", "thing")

    def __init__(self, x: Any) -> None:
        self.found: list[Any] = []
        self._key = seen(x, self.found)
        self.thing = x if stays(x) and named(x) is None else None
        self.ids: list[int] | None = None
        self._alive: tuple[Any, ...] = ()
        if type(x) is dict and all(map(stays, x)) and all(map(stays, x.values())):
            self._alive = (*x, *x.values())  # so that nothing else gets their identities
            self.ids = [*map(id, self._alive)]

    def holds(self, x: Any) -> bool:
        """Whether a thing, this or another one, holds the same."""
        if x is self.thing and x is not None:
            return True
        if (
            self.ids is not None
            and type(x) is dict
            and [*map(id, x), *map(id, x.values())] == self.ids
        ):
            return True
        return seen(x) == self._key

    @property
    def key(self) -> Hashable:
        """Equal for equal things."""
        return self._key


def seen(x: Any, found: list[Any] | None = None) -> Hashable:
    """A key of a thing whose attributes are looked at by themselves, if it compares by these."""
    if is_value(x):
        if found is not None:
            found.append(x)
        return (_VALUE, type(x))
    names = named(x)
    return content(x, found) if names is None else (Same(x), names)


def named(x: Any) -> Hashable | None:
    """What a class, a module or a function of users holds under its names; None for other things.

    Plain data is compared by all that it holds, everything else is itself.
    """
    if isinstance(x, types.FunctionType):
        names = [value for cell in x.__closure__ or () for value in _held_by(cell)]
        names += [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    elif isinstance(x, types.ModuleType) and not _is_shipped(x.__name__):
        names = _public(vars(x))
    elif isinstance(x, type) and is_users(x):
        names = [part for kind in x.__mro__ if is_users(kind) for part in _public(vars(kind))]
    else:
        return None
    try:
        return _data(names) if names else None
    except RecursionError:
        return None  # what contains itself


def _public(names: Mapping[str, Any]) -> list[Any]:
    return [part for pair in [*names.items()] if pair[0][:2] != "__" for part in pair]


def _held_by(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # nothing yet
        return ()


def _data(x: Any) -> Hashable:
    """A key of plain data, in which all else is itself."""
    kind = type(x)
    if kind in (list, tuple):
        return (kind, *map(_data, x))
    if kind is dict:
        return (kind, *[_data(part) for pair in [*x.items()] for part in pair])
    if kind is set or kind is frozenset:
        return (kind, frozenset(map(_data, x)))
    if kind in _PLAIN or kind in (float, complex, bytearray) or isinstance(x, Tensor):
        return content(x)
    if isinstance(x, (np.ndarray, np.generic)) and not x.dtype.hasobject:
        return content(x)
    return Same(x)

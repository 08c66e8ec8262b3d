"""Modules that hold modules or parameters: in a row, as a list, by name.

What is taken out of one is typed as `Any`, so that the attributes of its class can be used.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, overload

from ingle.tensor import Cell, Tensor
from ingle.tensor.errors import ArgumentError, OperandError
from ingle.tensor.other_names import let_properties_raise

from . import assigning, structure
from .module import Module
from .parameter import Parameter
from .porting import missing


class _Container(Module):
    """Keeps its entries in a dict of its own, so that a name may be that of a method."""

    _entries: dict[str, Any]
    _kind: str = "modules"
    _announced = Module._announced | {"_entries"}

    def __init__(self) -> None:
        structure.attributes(self)["_entries"] = {}

    def _registered(self) -> Iterator[tuple[str, Cell[Any] | Module]]:
        others = [(n, v) for n, v in structure.attributes(self).items() if n != "_entries"]
        yield from self._registered_among(others)
        yield from self._entries.items()

    def _entry(self, name: str, value: Any) -> Any:
        """What is kept for a value; an `OperandError` for one that cannot be an entry."""
        if not isinstance(value, Module):
            raise OperandError(
                f"{type(self).__name__}: entry {name!r} must be a Module, got "
                f"{type(value).__name__}"
                + ("; did you mean to call it?" if isinstance(value, type) else "")
                + (f"; write {type(self).__name__}(*modules)" if type(value) is list else "")
            )
        return value

    def _put(self, name: str, module: Any) -> None:
        module = self._entry(name, module)
        if not isinstance(name, str) or not name or "." in name:
            raise ArgumentError(
                f"{type(self).__name__}: a name is a string without dots, got {name!r}"
            )
        self._entries[name] = module
        structure.changed()

    def _renumber(self, modules: Iterable[Module]) -> None:
        modules = list(modules)
        self._entries.clear()
        for i, module in enumerate(modules):
            self._put(str(i), module)
        structure.changed()

    def __setattr__(self, name: str, value: Any) -> None:
        entries: dict[str, Any] = structure.attributes(self).get("_entries", {})
        if name in entries and not hasattr(type(self), name):
            if not isinstance(value, type(entries[name]) if self._kind != "modules" else Module):
                assigning.set_value(self, name, entries[name], value)
            self._put(name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._entries and not hasattr(type(self), name):
            del self._entries[name]
            structure.changed()
        else:
            super().__delattr__(name)

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        entries: dict[str, Any] = structure.attributes(self).get("_entries", {})
        if name in entries:
            return entries[name]
        let_properties_raise(self, name)
        known = f"; its {self._kind} are {', '.join(entries)}" if entries else ""
        raise AttributeError(missing(self, name) + known)


class _Ordered(_Container):
    """Reading and writing by position."""

    def _name(self, index: int) -> str:
        names = list(self._entries)
        if not isinstance(index, int) or isinstance(index, bool):
            raise OperandError(
                f"{type(self).__name__}: an index is an integer or a slice, got {index!r}"
            )
        if not -len(names) <= index < len(names):
            raise IndexError(
                f"{type(self).__name__}: index {index} is out of range; it has {len(names)} "
                f"{self._kind}"
            )
        return names[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._entries.values()))

    def __setitem__(self, index: int, module: Any) -> None:
        self._put(self._name(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._entries)
        gone = names[index] if isinstance(index, slice) else [self._name(index)]
        kept = {n: m for n, m in self._entries.items() if n not in gone}
        if all(n.isdigit() for n in names):
            self._renumber(kept.values())
        else:
            structure.attributes(self)["_entries"] = kept
            structure.changed()

    def append(self, module: Any) -> None:
        """Adds an entry at the end, named by its position."""
        self._put(str(len(self._entries)), module)

    def extend(self, modules: Iterable[Any]) -> None:
        """Adds several entries at the end."""
        if not isinstance(modules, Iterable):
            raise OperandError(
                f"{type(self).__name__}: expected a list of {self._kind}, got "
                f"{type(modules).__name__}; write [...] around what it shall hold"
            )
        for module in modules:
            self.append(module)

    def insert(self, index: int, module: Any) -> None:
        """Puts an entry before the one at `index`; those behind get new numbers."""
        modules = list(self._entries.values())
        modules.insert(index, module)
        self._renumber(modules)


class Sequential(_Ordered):
    """Modules in a row: each gets what the one before it returned.

    Args:
        modules: the modules, named by position; or one ordered mapping of names to modules.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> model(it.ones((5, 4))).shape
    (5, 2)
    >>> [name for name, _ in model.named_parameters()]
    ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        named: Iterable[tuple[str, Any]] = ((str(i), m) for i, m in enumerate(modules))
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            named = modules[0].items()
        for name, module in named:
            self._put(name, module)

    def forward(self, x: Any) -> Any:
        for module in self._entries.values():
            x = module(x)
        return x

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Sequential(dict(list(self._entries.items())[index]))
        return self._entries[self._name(index)]


class ModuleList(_Ordered):
    """A list of modules whose paths are their positions.

    >>> from ingle import nn
    >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), [name for name, _ in layers[1:].named_children()]
    (3, ['0', '1'])
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ModuleList(list(self._entries.values())[index])
        return self._entries[self._name(index)]


class _Named(_Container):
    """Reading and writing by name."""

    def __getitem__(self, name: str) -> Any:
        if name not in self._entries:
            known = ", ".join(self._entries) or "none"
            raise KeyError(f"no {self._kind.removesuffix('s')} {name!r}; there are: {known}")
        return self._entries[name]

    def __setitem__(self, name: str, module: Any) -> None:
        self._put(name, module)

    def __delitem__(self, name: str) -> None:
        self[name]
        del self._entries[name]
        structure.changed()

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def update(self, modules: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Adds or replaces several entries: a mapping, or pairs of a name and an entry."""
        try:
            named = dict(modules)
        except (TypeError, ValueError):
            raise OperandError(
                f"{type(self).__name__}: expected {self._kind} by name, as {{name: ...}}, got "
                f"{type(modules).__name__}"
            ) from None
        for name, module in named.items():
            self._put(name, module)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._entries.keys()

    def values(self) -> ValuesView[Any]:
        """The entries."""
        return self._entries.values()

    def items(self) -> ItemsView[str, Any]:
        """Names with entries."""
        return self._entries.items()


class ModuleDict(_Named):
    """Modules by name.

    >>> from ingle import nn
    >>> heads = nn.ModuleDict({"class": nn.Linear(4, 10), "box": nn.Linear(4, 4)})
    >>> sorted(heads), heads["box"].out_features
    (['box', 'class'], 4)
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})


class _Parameters(_Container):
    """Entries are parameters; tensors become such."""

    _kind = "parameters"

    def _entry(self, name: str, value: Any) -> Any:
        if isinstance(value, Module) or not isinstance(value, (Cell, Tensor)):
            raise OperandError(
                f"{type(self).__name__}: entry {name!r} must be a Parameter or a tensor, got "
                f"{type(value).__name__}"
            )
        return value if isinstance(value, Cell) else Parameter(value)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {p.dtype}{list(p.shape)}" for name, p in self._entries.items())


class ParameterList(_Parameters, _Ordered):
    """A list of parameters whose paths are their positions; tensors become parameters.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> class Powers(nn.Module):
    ...     def __init__(self, n):
    ...         self.weights = nn.ParameterList(it.ones(()) for _ in range(n))
    ...     def forward(self, x):
    ...         return sum(w * x**i for i, w in enumerate(self.weights))
    >>> [name for name, _ in Powers(2).named_parameters()]
    ['weights.0', 'weights.1']
    """

    def __init__(self, values: Iterable[Parameter | Tensor] = ()) -> None:
        super().__init__()
        self.extend(values)

    @overload
    def __getitem__(self, index: int) -> Parameter: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ParameterList(list(self._entries.values())[index])
        return self._entries[self._name(index)]


class ParameterDict(_Parameters, _Named):
    """Parameters by name; tensors become parameters.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> scales = nn.ParameterDict({"key": it.ones(2), "value": it.ones(3)})
    >>> [(name, p.shape) for name, p in scales.named_parameters()]
    [('key', (2,)), ('value', (3,))]
    """

    def __init__(self, values: Mapping[str, Parameter | Tensor] | None = None) -> None:
        super().__init__()
        self.update(values or {})


assigning.containers.update({list: ModuleList, dict: ModuleDict})

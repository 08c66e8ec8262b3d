"""What an assignment to an attribute of a module means for what is registered there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from ingle.tensor import Cell, Tensor
from ingle.tensor.errors import OperandError

from . import structure
from .parameter import Buffer, Parameter

if TYPE_CHECKING:
    from .module import Module

Collection: TypeAlias = "list[Any] | tuple[Any, ...] | dict[Any, Any]"

module_types: list[type[Module]] = []
"""The base of all modules, which enters itself: its file needs this one."""
containers: dict[type, Callable[[Any], Module]] = {}
"""What holds the modules of a list and of a dict; entered by the file of these classes."""


def is_module(value: object) -> TypeGuard[Module]:
    """Whether it is a module, for files below the one of `Module`."""
    return isinstance(value, tuple(module_types))


def set_value(owner: Module, name: str, held: Cell[Any] | Module, value: object) -> None:
    """Assigns a plain value where a cell or module is: a buffer takes a tensor, nothing else does.

    Raises:
        OperandError: the attribute would no longer be registered.
    """
    if isinstance(held, Buffer) and isinstance(value, Tensor):
        alike = (value.shape, value.dtype, value.device) == (held.shape, held.dtype, held.device)
        held.rebind(value)
        if not alike:
            structure.changed()
        return
    kind = type(held).__name__
    where = f"{type(owner).__name__}.{name}"
    if not isinstance(held, Cell):
        cure = f"assign a module, or None first to give the name another use (`m.{name} = None`)"
    else:
        made = type(held) if isinstance(held, (Parameter, Buffer)) else Cell
        cure = (
            f"write `m.{name}.value = x` to change its value, or `m.{name} = {made.__name__}(x)` "
            "for another one"
        )
    article = "an" if kind[0] in "AEIOU" else "a"
    raise OperandError(
        f"{where} is {article} {kind}: assigning a value of type {type(value).__name__} would "
        f"unregister it, and it would be neither trained nor saved; {cure}"
    )


def holds_registrable(value: Collection) -> bool:
    """Whether a plain collection has modules, parameters or buffers among its entries."""
    items = value.values() if isinstance(value, dict) else value
    return any(isinstance(v, (Parameter, Buffer)) or is_module(v) for v in items)


def container(owner: str, name: str, value: Collection) -> Any:
    """A plain collection of modules as the module that holds them; any other as it is."""
    if not holds_registrable(value):
        return value
    items = list(value.values() if isinstance(value, dict) else value)
    if not all(is_module(v) for v in items):
        kinds = ", ".join(sorted({type(v).__name__ for v in items}))
        raise OperandError(
            f"{owner}.{name}: a {type(value).__name__} that is assigned to a module holds modules "
            f"alone or none, got {kinds}; give each parameter an attribute of its own, or use "
            "ParameterList or ParameterDict"
        )
    return containers[dict](value) if isinstance(value, dict) else containers[list](items)

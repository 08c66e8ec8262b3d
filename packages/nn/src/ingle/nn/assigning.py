"""What an assignment to an attribute of a module means for what is registered there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ingle.tensor import Cell, Tensor
from ingle.tensor.errors import OperandError

from . import structure
from .parameter import Buffer, Parameter

if TYPE_CHECKING:
    from .module import Module

Collection: TypeAlias = "list[Any] | tuple[Any, ...] | dict[Any, Any]"


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
    from .module import Module

    items = value.values() if isinstance(value, dict) else value
    return any(isinstance(v, (Module, Parameter, Buffer)) for v in items)


def container(owner: str, name: str, value: Collection) -> Any:
    """A plain collection of modules as the module that holds them; any other as it is."""
    from .containers import ModuleDict, ModuleList
    from .module import Module

    if not holds_registrable(value):
        return value
    items = list(value.values() if isinstance(value, dict) else value)
    if not all(isinstance(v, Module) for v in items):
        kinds = ", ".join(sorted({type(v).__name__ for v in items}))
        raise OperandError(
            f"{owner}.{name}: a {type(value).__name__} that is assigned to a module holds modules "
            f"alone or none, got {kinds}; give each parameter an attribute of its own, or use "
            "ParameterList or ParameterDict"
        )
    return ModuleDict(value) if isinstance(value, dict) else ModuleList(items)

"""Parameters that are computed from others at each read, as `torch.nn.utils.parametrize`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.blocks import WithBlock, holding, of_values
from ingle.tensor.errors import ArgumentError, OperandError, ShapeError

from .. import structure
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter


class ParametrizationList(ModuleList):
    """What a parameter is computed from, `original` or `original0`, …, and the modules that do.

    >>> from ingle import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """

    def __init__(self, first: Module, original: Parameter) -> None:
        super().__init__([first])
        self._keep(original.raw, original.requires_grad)

    def _keep(self, value: Tensor, requires_grad: bool) -> None:
        for module in reversed(list(self)):
            back = getattr(module, "right_inverse", None)
            if back is not None:
                value = back(value)
        if isinstance(value, tuple):
            for i, part in enumerate(value):
                self._set(f"original{i}", part, requires_grad)
        else:
            self._set("original", value, requires_grad)

    def _set(self, name: str, value: Any, requires_grad: bool) -> None:
        if name in vars(self):
            vars(self)[name].value = value
        else:
            setattr(self, name, Parameter(it.asarray(value).detach(), requires_grad))

    def _originals(self) -> list[Parameter]:
        return [p for n, p in vars(self).items() if n.startswith("original")]

    def forward(self) -> Tensor:
        first, *others = list(self)
        value: Tensor = first(*(it.asarray(p) for p in self._originals()))
        for module in others:
            value = module(value)
        return value

    def assign(self, value: Tensor) -> None:
        """Sets what the parameter is computed from so that it becomes `value`."""
        self._keep(value.detach(), self._originals()[0].requires_grad)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """From now on `module.tensor_name` is `parametrization(original)`, computed at each read.

    The parameter moves to `module.parametrizations.tensor_name.original`. A `right_inverse` of the
    parametrization says what to keep for a value; a tuple is kept as `original0`, `original1`, ….

    Args:
        module: whose parameter.
        tensor_name: its name there.
        parametrization: computes a tensor of the same shape and dtype.
        unsafe: another shape or dtype is allowed.

    Returns:
        The module.

    Raises:
        ArgumentError: there is no such parameter.
        ShapeError: what is computed has another shape.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> from ingle.nn.utils import parametrize
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return it.triu(x) + it.triu(x, k=1).mT
    >>> layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> bool(it.all(layer.weight == layer.weight.mT))
    True
    """
    kind = type(module).__name__
    if is_parametrized(module, tensor_name):
        lists: ParametrizationList = module.parametrizations[tensor_name]  # type: ignore[attr-defined]
        before = lists()
        lists.append(parametrization)
        back = getattr(parametrization, "right_inverse", None)
        if back is not None:
            for inner in reversed(list(lists)[:-1]):
                if not hasattr(inner, "right_inverse"):
                    raise ArgumentError(
                        f"register_parametrization: {type(inner).__name__} has no right_inverse, "
                        "which a second parametrization with one needs"
                    )
            lists.assign(before)
        return module
    held = vars(module).get(tensor_name)
    if not isinstance(held, Parameter):
        names = ", ".join(n for n, _ in module.named_parameters(recurse=False)) or "none"
        raise ArgumentError(
            f"register_parametrization: {kind} has no parameter {tensor_name!r}; it has {names}"
        )
    if not isinstance(parametrization, Module):
        raise OperandError(
            f"register_parametrization: expected a Module, got {type(parametrization).__name__}"
        )
    made = ParametrizationList(parametrization, held)
    value = made()
    if not unsafe and (value.shape, value.dtype) != (held.shape, held.dtype):
        raise ShapeError(
            f"register_parametrization: {type(parametrization).__name__} makes {value.dtype}"
            f"{list(value.shape)} of {kind}.{tensor_name}, expected {held.dtype}"
            f"{list(held.shape)}; pass unsafe=True to allow it"
        )
    if not is_parametrized(module):
        _inject_class(module)
        module.parametrizations = ModuleDict()
    vars(module).pop(tensor_name)
    setattr(type(module), tensor_name, _computed(tensor_name))
    module.parametrizations[tensor_name] = made  # type: ignore[attr-defined]
    structure.changed()
    return module


def _inject_class(module: Module) -> None:
    kind = type(module)
    names = {"__module__": kind.__module__, "__reduce__": _reduced}
    object.__setattr__(module, "__class__", type(f"Parametrized{kind.__name__}", (kind,), names))


def _reduced(module: Any) -> tuple[Any, ...]:
    """How a module is copied and pickled: with a class of its own, made again."""
    names = tuple(module.parametrizations)
    return _rebuilt, (type(module).__mro__[1], names), dict(vars(module))


def _rebuilt(kind: type[Module], names: tuple[str, ...]) -> Module:
    module = kind.__new__(kind)
    _inject_class(module)
    for name in names:
        setattr(type(module), name, _computed(name))
    return module


def _computed(name: str) -> property:
    def get(self: Any) -> Tensor:
        kept, key = _kept.get(), (id(self), name)
        if kept is not None and key in kept:
            return kept[key]
        value: Tensor = self.parametrizations[name]()
        if kept is not None:
            kept[key] = value
        return value

    def put(self: Any, value: Any) -> None:
        self.parametrizations[name].assign(it.asarray(value))

    return property(get, put)


_kept: ContextVar[dict[tuple[int, str], Tensor] | None] = of_values(
    ContextVar("ingle_parametrized", default=None)
)


def cached() -> WithBlock[Any]:
    """Inside, a parametrized parameter is computed at its first read alone.

    For a model that reads one often, such as in a loop over time. What is assigned inside to what
    it is computed from is not seen before the end.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> from ingle.nn.utils import parametrizations, parametrize
    >>> layer = parametrizations.weight_norm(nn.Linear(2, 3))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    return holding(_kept, {})


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of that parameter.

    >>> from ingle import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> is_parametrized(layer), is_parametrized(layer, "bias")
    (True, False)
    """
    found = vars(module).get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Makes a parameter of its own again, with the computed value or the original one.

    Raises:
        ArgumentError: there are none, or the tensor is made of several and must stay.

    >>> from ingle import nn
    >>> from ingle.nn.utils import parametrizations, parametrize
    >>> layer = parametrizations.weight_norm(nn.Linear(2, 3))
    >>> list(parametrize.remove_parametrizations(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(
            f"remove_parametrizations: {type(module).__name__}.{tensor_name} has none"
        )
    lists: ParametrizationList = module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    originals = lists._originals()
    if not leave_parametrized and len(originals) > 1:
        raise ArgumentError(
            f"remove_parametrizations: {tensor_name} is made of {len(originals)} tensors; only "
            "leave_parametrized=True can make one of them"
        )
    value = lists().detach() if leave_parametrized else originals[0].raw
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    setattr(module, tensor_name, Parameter(value, originals[0].requires_grad))
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        object.__setattr__(module, "__class__", type(module).__mro__[1])
    structure.changed()
    return module

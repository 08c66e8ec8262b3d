"""The base of layers and models: an ordinary class whose cells and modules have paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, TypeVar, cast

from ingle.tensor import Cell, Device, DType, Tensor, nan_watch, transaction
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.errors import ArgumentError, DTypeError, IngleError, OperandError
from ingle.tensor.plugins import transform

from . import assigning, state, structure, tree
from .hooks import Handle, Hooks
from .parameter import Buffer, Parameter
from .porting import PyTorchMethods
from .selection import Selector, select

M = TypeVar("M", bound="Module")
C = TypeVar("C", bound="Cell[Any]")


class Module(structure.Watched, PyTorchMethods):
    """Derive from it, assign parameters, buffers and modules to attributes, write `forward`.

    What is assigned is registered under the attribute's name, from which paths such as
    `"encoder.0.weight"` follow; lists, tuples and dicts of modules become `ModuleList` and
    `ModuleDict`. A cell counts once, however many paths lead to it. There is no need to call
    `super().__init__()`.

    Attributes:
        training: whether layers such as dropout and batch norm behave as in training.
        checkpointed: whether the backward pass computes what happens inside once more, instead of
            keeping it; see `ingle.autodiff.checkpoint`.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self, size):
    ...         self.factor = nn.Parameter(it.ones(size))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> scale = Scale(2)
    >>> scale(it.asarray([3.0, 4.0])).tolist()
    [3.0, 4.0]
    >>> [(name, p.shape) for name, p in scale.named_parameters()]
    [('factor', (2,))]
    """

    training: bool = True
    checkpointed: bool = False
    _announced = frozenset({"_hooks"})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every module writes its own."""
        raise NotImplementedError(
            f"{type(self).__name__} has no forward: define `def forward(self, x)` in the class"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward = self.forward
        if self.checkpointed:
            # Without a package that records gradients there is nothing to keep either.
            forward = (transform("checkpoint") or _itself)(forward)
        hooks: Hooks | None = structure.attributes(self).get("_hooks")
        if hooks is not None:
            forward = hooks.around(self, forward)
        try:
            if nan_watch.active:
                return _watched(self, forward, args, kwargs)
            return forward(*args, **kwargs)
        except IngleError as error:
            _locate(error, self)
            raise

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Calls `hook(module, args)` before `forward`; what it returns takes the arguments' place.

        Args:
            hook: returns None to change nothing, else the arguments: a tuple, or the only one.
            prepend: whether it runs before the hooks that are there.
            with_kwargs: the hook is called with `(module, args, kwargs)` and returns both or None.

        Returns:
            A handle, whose `remove()` takes the hook away.
        """
        return Hooks.of(self).add("before", hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Calls `hook(module, args, output)` behind `forward`; what it returns is the output.

        Args:
            hook: returns None to leave the output as it is.
            prepend: whether it runs before the hooks that are there.
            with_kwargs: the hook is called with `(module, args, kwargs, output)`.
            always_call: whether it is called, with None, where `forward` raises.

        Returns:
            A handle, whose `remove()` takes the hook away; a `with` block does so at its end.

        >>> import ingle.tensor as it
        >>> from ingle import nn
        >>> model, seen = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), []
        >>> with model[0].register_forward_hook(lambda m, args, y: seen.append(y.shape)):
        ...     y = model(it.ones((5, 2)))
        >>> seen
        [(5, 3)]
        """
        return Hooks.of(self).add("behind", hook, prepend, with_kwargs, always_call)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (list, tuple, dict)) and value:
            value = assigning.container(type(self).__name__, name, value)
        held = structure.attributes(self)
        old = held[name] if name in held else getattr(type(self), name, self)
        if (
            name in held
            and isinstance(old, (Cell, Module))
            and not isinstance(value, (Cell, Module, NoneType))
        ):
            assigning.set_value(self, name, old, value)
            return
        object.__setattr__(self, name, value)
        if name in held:
            structure.assigned(self, name, old, value)
        else:
            structure.changed()  # a property, which keeps the value elsewhere

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        structure.changed()

    def _registered(self) -> Iterator[tuple[str, Cell[Any] | Module]]:
        """The cells and modules directly in this module, with their names."""
        return self._registered_among(structure.attributes(self).items())

    def _registered_among(
        self, attributes: Iterable[tuple[str, Any]]
    ) -> Iterator[tuple[str, Cell[Any] | Module]]:
        for name, value in attributes:
            if isinstance(value, (Cell, Module)):
                yield name, value
            elif isinstance(value, (list, dict)) and assigning.holds_registrable(value):
                raise OperandError(
                    f"{type(self).__name__}.{name} is a plain {type(value).__name__} that modules "
                    f"or parameters were put into after it was assigned, so that they have no "
                    f"paths; use ModuleList or ModuleDict from the start"
                )

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names; each once."""
        seen: set[int] = set()
        for name, value in self._registered():
            if isinstance(value, Module) and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        for _, child in self.named_children():
            yield child

    def named_modules(
        self, prefix: str = "", *, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module (under the empty path) and all below, with their paths, parents first."""
        yield from self._walk(prefix, set() if remove_duplicate else None, ())

    def _walk(
        self, path: str, seen: set[int] | None, above: tuple[Module, ...]
    ) -> Iterator[tuple[str, Module]]:
        if seen is not None:
            if id(self) in seen:
                return
            seen.add(id(self))
        elif any(self is m for m in above):
            raise OperandError(
                f"{path!r} is a {type(self).__name__} that contains itself; keep a reference to a "
                "parent outside of attributes, for example as a weakref"
            )
        yield path, self
        for name, value in self._registered():
            if isinstance(value, Module):
                yield from value._walk(f"{path}.{name}" if path else name, seen, (*above, self))

    def modules(self) -> Iterator[Module]:
        """This module and all below, each once."""
        for _, module in self.named_modules():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, *, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its path; a tied one once, under its first path.

        Args:
            prefix: put before every path.
            recurse: False for the parameters of this module alone.
            remove_duplicate: False lists a tied parameter under each of its paths.
        """
        yield from self._cells(Parameter, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, *, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Buffer]]:
        """Every buffer with its path; see `named_parameters`."""
        yield from self._cells(Buffer, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Buffer]:
        """Every buffer, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def __ingle_cells__(self) -> list[Cell[Any]]:
        """What transforms such as `grad` differentiate a module by, less what is frozen."""
        return list(self.parameters())

    def _cells(
        self, kind: type[C], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, C]]:
        seen: set[int] = set()
        modules: Iterable[tuple[str, Module]] = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, cell in module._registered():
                if isinstance(cell, kind) and not (remove_duplicate and id(cell) in seen):
                    seen.add(id(cell))
                    yield f"{path}.{name}" if path else name, cell

    def count_parameters(self, *, trainable_only: bool = False) -> int:
        """The number of elements of all parameters, tied ones once."""
        return sum(p.raw.size for p in self.parameters() if p.requires_grad or not trainable_only)

    def state_dict(self) -> dict[str, Tensor]:
        """The values of all parameters and persistent buffers by path, as they are now.

        Tensors never change, so this is a snapshot that later steps leave alone. A tied cell is
        listed under each of its paths.
        """
        return {path: cell.raw for path, cell in state.named_cells(self)}

    def load_state_dict(self, mapping: Mapping[str, Any], strict: bool = True) -> state.Skipped:
        """Sets parameters and buffers by path: from all of `mapping`, or on an error nothing.

        Args:
            mapping: tensors, NumPy arrays or PyTorch tensors by path; cast to the cells' dtypes.
            strict: False passes over missing and unexpected paths.

        Returns:
            `missing_keys` and `unexpected_keys`: what was passed over.

        Raises:
            StateError: lists everything that is missing, unexpected, or of a wrong shape or dtype.
        """
        return state.load(self, mapping, strict)

    def to(self: M, device: Device | str | DType | None = None, dtype: object = None) -> M:
        """Moves all parameters and buffers to a device, and casts the floating ones to a dtype.

        Raises:
            DTypeError: `dtype` is no float dtype.

        >>> from ingle.nn import Linear
        >>> Linear(2, 3).to(dtype="float64").weight.dtype
        float64
        """
        if isinstance(device, DType):
            device, dtype = None, device
        to = None if dtype is None else as_dtype(dtype)
        if to is not None and not to.is_inexact:
            raise DTypeError(f"to: a module is cast to a float dtype, got {to}")
        with transaction():
            for cell in [*self.parameters(), *self.buffers()]:
                value = cell.raw
                if device is not None:
                    value = value.to_device(device)
                if to is not None and value.dtype.is_floating:
                    value = value.astype(to)
                cell.rebind(value)
        structure.changed()
        return self

    def train(self: M, mode: bool = True) -> M:
        """Makes this module and all below behave as in training; `mode=False` as `eval`."""
        if isinstance(mode, str):  # each text but "" would be taken for True
            raise ArgumentError(
                f"train: mode must be a bool, got {mode!r}; write .eval() or .train()"
            )
        # A submodule with a `train` of its own answers for what is below it.
        seen, waiting = {id(self)}, [cast(Module, self)]
        while waiting:
            module = waiting.pop()
            module.training = bool(mode)
            for child in module.children():
                if getattr(child.train, "__func__", None) is not Module.train:
                    child.train(mode)
                elif id(child) not in seen:
                    seen.add(id(child))
                    waiting.append(child)
        return self

    def eval(self: M) -> M:
        """Makes this module and all below behave as in use: no dropout, fixed statistics."""
        return self.train(False)

    def freeze(self: M, *selectors: Selector) -> M:
        """Records no gradients for the selected parameters, or for all; see `select`.

        >>> from ingle import nn
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)).freeze("0")
        >>> [name for name, p in model.named_parameters() if p.requires_grad]
        ['1.weight', '1.bias']
        """
        return self._set_requires_grad(selectors, False)

    def unfreeze(self: M, *selectors: Selector) -> M:
        """Takes back `freeze` for the selected parameters, or for all."""
        return self._set_requires_grad(selectors, True)

    def _set_requires_grad(self: M, selectors: tuple[Selector, ...], wanted: bool) -> M:
        for parameter in select(self, *selectors).values():
            parameter.requires_grad = wanted
        return self

    def apply(self: M, function: Callable[[Module], object]) -> M:
        """Calls a function on every module, those below first, and returns this module."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def extra_repr(self) -> str:
        """What `repr` shows between the parentheses of a module without children."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {child!r}" for name, child in self.named_children()]
        head, extra = type(self).__name__, self.extra_repr()
        if not lines:
            return f"{head}({extra})"
        inside = "\n".join(([extra] if extra else []) + lines).replace("\n", "\n  ")
        return f"{head}(\n  {inside}\n)"

    def summary(self) -> str:
        """The tree of modules with names, shapes and counts of parameters, and totals."""
        return tree.tree(self)

    def print_tree(self) -> None:
        """Prints `summary()`."""
        print(self.summary())  # noqa: T201 (it is what the method is for)


structure.owners.append(Module)
assigning.module_types.append(Module)


def _watched(module: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    watch = nan_watch.current()
    if watch is None:
        return forward(*args, **kwargs)
    with watch.inside(module):
        return forward(*args, **kwargs)


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _locate(error: IngleError, module: Module) -> None:
    """Notes in the error which module it happened in; each level above lengthens the path."""
    inner: Module = error.__dict__.setdefault("module", module)
    if inner is module:
        plain = next(module.children(), None) is None
        error.add_note(f"in {module!r}" if plain else f"in {type(module).__name__}")
        return
    path = next((p for p, m in module.named_modules() if m is inner), None)
    if path is not None:
        head = repr(inner) if next(inner.children(), None) is None else type(inner).__name__
        error.__notes__[-1] = f"in {path!r} of {type(module).__name__}: {head}"

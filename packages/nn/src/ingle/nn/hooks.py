"""Functions that are called before and behind a module's `forward`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ingle.tensor.errors import OperandError

from . import structure

if TYPE_CHECKING:
    from .module import Module

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class _Hook:
    function: Callable[..., Any]
    with_kwargs: bool
    always: bool


class Handle:
    """What registering a hook returns.

    >>> from ingle import nn
    >>> handle = nn.ReLU().register_forward_hook(lambda module, args, output: None)
    >>> handle.remove()
    """

    def __init__(self, hooks: dict[int, _Hook], number: int) -> None:
        self._hooks = hooks
        self._number = number

    def remove(self) -> None:
        """Takes the hook away; nothing happens if it is gone already."""
        if self._hooks.pop(self._number, None) is not None:
            structure.changed()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class Hooks:
    """The hooks of one module, each kind in the order in which they are called."""

    def __init__(self) -> None:
        self.before: dict[int, _Hook] = {}
        self.behind: dict[int, _Hook] = {}

    @staticmethod
    def of(module: Module) -> Hooks:
        """Those of a module; it gets some if it has none."""
        found: Hooks = vars(module).setdefault("_hooks", Hooks())
        return found

    def add(
        self,
        place: Literal["before", "behind"],
        function: Callable[..., Any],
        prepend: bool,
        with_kwargs: bool,
        always: bool = False,
    ) -> Handle:
        """Registers a hook; recordings of the module hold no longer."""
        if not callable(function):
            raise OperandError(f"a hook is a function, got {type(function).__name__}")
        hooks, number = getattr(self, place), next(_numbers)
        hook = _Hook(function, with_kwargs, always)
        if prepend:
            others = dict(hooks)
            hooks.clear()
            hooks[number] = hook
            hooks.update(others)
        else:
            hooks[number] = hook
        structure.changed()
        return Handle(hooks, number)

    def around(self, module: Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        """`forward` with the hooks that are there now."""

        def call(*args: Any, **kwargs: Any) -> Any:
            waiting = [h for h in self.behind.values() if h.always]
            try:
                for hook in tuple(self.before.values()):
                    args, kwargs = _arguments(hook, module, args, kwargs)
                output = forward(*args, **kwargs)
                for hook in tuple(self.behind.values()):
                    if hook in waiting:
                        waiting.remove(hook)
                    output = _output(hook, module, args, kwargs, output)
            except Exception:
                for hook in waiting:
                    _output(hook, module, args, kwargs, None)
                raise
            return output

        return call


def _arguments(
    hook: _Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not hook.with_kwargs:
        found = hook.function(module, args)
        if found is None:
            return args, kwargs
        return (found if isinstance(found, tuple) else (found,)), kwargs
    found = hook.function(module, args, kwargs)
    if found is None:
        return args, kwargs
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[1], dict):
        raise OperandError(
            f"forward pre-hook of {type(module).__name__}: with_kwargs=True returns None or "
            f"(args, kwargs), got {found!r:.80}"
        )
    return found


def _output(
    hook: _Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    if hook.with_kwargs:
        found = hook.function(module, args, kwargs, output)
    else:
        found = hook.function(module, args, output)
    return output if found is None else found

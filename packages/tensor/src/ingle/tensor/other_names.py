"""What a package answers for a name of PyTorch's that is called otherwise here.

Tables are lines of names and what to write. Errors, documentation and tests share them.
Arguments of classes may go by both names.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T", bound=type)


def table(text: str) -> dict[str, str]:
    """What to write, by name, of lines such as `cat concatenate: it.concat([a, b])`."""
    lines = [line.partition(": ") for line in text.strip().splitlines()]
    return {name: code for names, _, code in lines for name in names.split()}


class Answering(ModuleType):
    """The class of modules whose errors say what to write for another library's names."""

    def __getattr__(self, name: str) -> Any:
        told = _answers.get(self.__name__, {}).get(name)
        said = f"module {self.__name__!r} has no attribute {name!r}"
        raise AttributeError(
            said if told is None else f"{said}, as PyTorch's has; here: {told}", name=name, obj=self
        )

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """By its name. Libraries that ship functions know this of plain modules only."""
        return importlib.import_module, (self.__name__,)


def let_properties_raise(owner: object, name: str) -> None:
    """Raises what a property raised, where `__getattr__` is asked for that property.

    Python forgets an `AttributeError` that leaves a property, and then asks `__getattr__`: a name
    that is missing inside of it would be told as if the property itself were missing.

    >>> class Scaled:
    ...     @property
    ...     def size(self):
    ...         return self.lenght
    ...     def __getattr__(self, name):
    ...         let_properties_raise(self, name)
    ...         raise AttributeError(f"Scaled has no attribute {name!r}")
    >>> Scaled().size
    Traceback (most recent call last):
        ...
    AttributeError: Scaled has no attribute 'lenght'
    """
    if hasattr(type(owner), name):
        object.__getattribute__(owner, name)


_answers: dict[str, Mapping[str, str]] = {}


def answering(module: str, names: Mapping[str, str]) -> None:
    """Lets a module say what to write for names that it does not have.

    It is done to the module's class, so that type checkers go on to know which names there are.

    Args:
        module: its name.
        names: what to write for those of PyTorch.

    >>> from ingle import nn
    >>> nn.utils.clip_grad_norm_
    Traceback (most recent call last):
        ...
    AttributeError: module 'ingle.nn.utils' has no attribute 'clip_grad_norm_', as PyTorch's has; \
here: optim.clip_grad_norm(grads, max_norm)
    """
    _answers[module] = names
    found = importlib.import_module(module)
    if not isinstance(found, Answering):
        found.__class__ = Answering


def also(**names: str | None) -> Callable[[T], T]:
    """A class that takes arguments by PyTorch's names, too.

    Args:
        names: PyTorch's name and the name here; None for a switch that changes no result, as
            `inplace`, which may also come by position behind all others.
    """

    def wrapped(cls: T) -> T:
        made: Callable[..., None] = vars(cls).get("__init__") or cls.__init__  # type: ignore[misc]
        count = made.__code__.co_argcount - 1 if hasattr(made, "__code__") else 0

        @functools.wraps(made)
        def init(self: Any, *args: Any, **options: Any) -> None:
            for theirs, ours in names.items():
                if theirs in options:
                    value = options.pop(theirs)
                    if ours is not None:
                        options[ours] = value
            if len(args) == count + 1 and None in names.values() and isinstance(args[-1], bool):
                args = args[:-1]
            made(self, *args, **options)

        cls.__init__ = init  # type: ignore[misc]
        cls.__also__ = names  # type: ignore[attr-defined]
        return cls

    return wrapped

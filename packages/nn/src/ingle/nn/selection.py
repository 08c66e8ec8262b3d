"""Parameters by path, pattern or predicate: for freezing, weight decay, learning rates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from ingle.tensor.argument_checks import nearest
from ingle.tensor.errors import ArgumentError, OperandError

from . import assigning
from .parameter import Parameter

if TYPE_CHECKING:
    from .module import Module

Predicate = Callable[[str, Parameter], bool]
Selector: TypeAlias = "str | re.Pattern[str] | Predicate | Parameter | Module"


def select(
    module: Module, *selectors: Selector, exclude: Iterable[Selector] = ()
) -> dict[str, Parameter]:
    """The parameters that any of the selectors names, by path, each once.

    A selector is one of
    - a path, `"encoder"` or `"encoder.0.weight"`: that parameter, or all below that module;
    - a glob, `"*.bias"`, where `*` also runs over dots;
    - a compiled regular expression, found anywhere in the path;
    - a function of path and parameter that says yes or no;
    - a parameter, or a submodule.

    A tied parameter is found by any of its paths and listed under its first.

    Args:
        module: where to look.
        selectors: what to take; all parameters if there are none.
        exclude: selectors of what to leave out of that.

    Raises:
        ArgumentError: a selector by name found nothing, which is mostly a misspelt path.

    >>> from ingle.nn import Linear, Sequential, ReLU, select
    >>> model = Sequential(Linear(2, 3), ReLU(), Linear(3, 1))
    >>> list(select(model, "*.bias"))
    ['0.bias', '2.bias']
    >>> list(select(model, "0", exclude=["*.bias"]))
    ['0.weight']
    """
    paths: dict[Parameter, list[str]] = {}
    for path, parameter in module.named_parameters(remove_duplicate=False):
        paths.setdefault(parameter, []).append(path)
    chosen = set(paths) if not selectors else _union(paths, selectors)
    chosen -= _union(paths, tuple(exclude))
    return {found[0]: parameter for parameter, found in paths.items() if parameter in chosen}


def _union(paths: dict[Parameter, list[str]], selectors: tuple[Selector, ...]) -> set[Parameter]:
    found: set[Parameter] = set()
    for selector in selectors:
        matches = _matcher(selector)
        got = {p for p, names in paths.items() if any(matches(name, p) for name in names)}
        if not got and isinstance(selector, (str, re.Pattern)):
            raise ArgumentError(_nothing(selector, [n for names in paths.values() for n in names]))
        found |= got
    return found


def _matcher(selector: Selector) -> Predicate:
    if isinstance(selector, str):
        below = selector + "."
        return lambda path, _: fnmatchcase(path, selector) or path.startswith(below)
    if isinstance(selector, re.Pattern):
        return lambda path, _: selector.search(path) is not None
    if isinstance(selector, Parameter):
        return lambda _, parameter: parameter is selector
    if assigning.is_module(selector):
        inside = set(selector.parameters())
        return lambda _, parameter: parameter in inside
    if callable(selector):
        return selector
    raise OperandError(
        f"select: a selector is a path, a glob, a compiled regular expression, a function of path "
        f"and parameter, a parameter or a module; got {type(selector).__name__}"
    )


def _nothing(selector: str | re.Pattern[str], paths: list[str]) -> str:
    text = selector if isinstance(selector, str) else selector.pattern
    close = nearest(text, paths, count=3, cutoff=0.4) or paths[:5]
    have = ", ".join(close) if paths else "none: the module has no parameters"
    return f"select: no parameter matches {text!r}; there are for example: {have}"

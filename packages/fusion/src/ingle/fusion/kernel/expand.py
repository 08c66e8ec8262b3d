"""Composite operations in terms of the core, and what a target lacks in terms of what it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from .code import COMPOSITE, Code, CodeBuilder
from .expression import Expression
from .functions import EXPANSIONS, FUNCTIONS

Native = Callable[[str, str, str], bool]
"""Whether a target computes (name, dtype, dtype of the first argument) by itself."""


class Expander(CodeBuilder):
    """A builder that writes what is not native in terms of what is."""

    def __init__(self, native: Native) -> None:
        super().__init__(exact=True)
        self._native = native

    def offers(self, name: str, dtype: str) -> bool:
        return self._native(name, dtype, dtype)

    def append(self, name: str, dtype: str, args: tuple[int, ...] = (), value: Any = None) -> int:
        rule = EXPANSIONS.get(name)
        if rule is not None:
            source = self.dtype(args[0]) if args else dtype
            if not self._native(name, dtype, source):
                written = rule(dtype, *[Expression(self, a) for a in args])
                return written.at
        return super().append(name, dtype, args, value)


def core_only(name: str, dtype: str, source: str) -> bool:
    """A target that has the whole core and nothing more, not even half types."""
    return name not in COMPOSITE and name != "permute"


def expand(
    code: Code, roots: Iterable[int], native: Native = core_only
) -> tuple[Code, tuple[int, ...]]:
    """A code in terms of what is native, and the positions of the roots in it.

    >>> b = CodeBuilder()
    >>> root = b.append("rsqrt", "float32", (b.load(0, "float32"),))
    >>> code, roots = expand(*b.finish(root))
    >>> [i.name for i in code]
    ['load', 'sqrt', 'constant', 'div']
    """
    builder = Expander(native)
    places = builder.inline(code, lambda instruction: None)
    return builder.finish(*[places[r] for r in roots])


@lru_cache(maxsize=256)
def function_code(name: str, dtypes: tuple[str, ...]) -> tuple[Code, tuple[int]]:
    """The code of a function that a `fallback` names, and where its result is.

    Args:
        dtypes: of its arguments.
    """
    builder = CodeBuilder()
    places = [builder.append("argument", d, (), n) for n, d in enumerate(dtypes)]
    arguments = [Expression(builder, at) for at in places]
    code, (root,) = builder.finish(FUNCTIONS[name](*arguments).at)
    return code, (root,)

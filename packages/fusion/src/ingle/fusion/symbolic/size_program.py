"""What an inquiry writes, as data: from values of symbols to what sizes decide."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_TOKENS = re.compile(
    r"(?:\b(?:[ank](?:0|[1-9][0-9]*)|0|[1-9][0-9]*|if|not|in|and|return|None|True|False|max"
    r"|View|Argument|BufferOffset|Windows)\b|[-+*/%<>=(){},: ])*"
)
"""No attributes, no texts, no names but those that are given: nothing that does more than count."""


class SizeProgram(NamedTuple):
    """A function of symbols, which are called `a0`, `a1`, …

    Attributes:
        symbols: how many there are.
        lines: what is computed first, and checked: values that answer otherwise return None.
        result: the code of what is returned.
        names: what else the code names.
    """

    symbols: int
    lines: tuple[str, ...]
    result: str
    names: Mapping[str, Any]

    def function(self) -> Callable[..., Any]:
        """The function."""
        names = dict(self.names)
        parameters = ", ".join([f"a{k}" for k in range(self.symbols)])
        body = "\n    ".join([*self.lines, f"return {self.result}"])
        exec(f"def at({parameters}):\n    {body}\n", names)
        made: Callable[..., Any] = names["at"]
        return made

    def is_arithmetic(self) -> bool:
        """Whether it is what inquiries write and nothing else: asked of what is from outside."""
        return all(_TOKENS.fullmatch(t) and "**" not in t for t in (*self.lines, self.result))

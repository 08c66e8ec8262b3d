"""What Python asks of a number, of tensors and cells that hold a single one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def _converted(name: str, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return convert(self._number(name))

    return method


class NumberProtocol:
    """Conversions, rounding and formats; `_number` answers with the Python number, or raises."""

    __slots__ = ()

    def _number(self, to: str) -> Any:
        raise NotImplementedError

    __int__: Callable[[Any], int] = _converted("int", int)
    __float__: Callable[[Any], float] = _converted("float", float)
    __complex__: Callable[[Any], complex] = _converted("complex", complex)
    __floor__: Callable[[Any], int] = _converted("floor", math.floor)
    __ceil__: Callable[[Any], int] = _converted("ceil", math.ceil)
    __trunc__: Callable[[Any], int] = _converted("trunc", math.trunc)

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._number("round"), digits)

    def __format__(self, spec: str) -> str:
        return format(self._number("format"), spec) if spec else str(self)

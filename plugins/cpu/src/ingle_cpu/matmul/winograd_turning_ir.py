"""Turning vectors of elements, taps and products along an axis, by parts of three or two taps.

Results of three taps are A' [(G taps) * (B' elements)], and those of two likewise:

    B' = 1  0 -1  0      G = 1   0   0      A' = 1  1  1  0
         0  1  1  0          1/2 1/2 1/2         0  1 -1 -1
         0 -1  1  0          1/2 -1/2 1/2
         0  1  0 -1          0   0   1

    B' = 1 -1  0         G = 1 0            A' = 1  1  0
         0  1  0             1 1                 0  1 -1
         0  1 -1             0 1
"""

from __future__ import annotations

from ingle.fusion.device.llvm import Values, Writer, vector_type

from .winograd_form import PatchForm


class TurningCode:
    """Instructions on vectors of float32.

    Args:
        w: of the kernel.
        form: how many taps there are.
        lanes: of a vector.
    """

    def __init__(self, w: Writer, form: PatchForm, lanes: int) -> None:
        self._w = w
        self._form = form
        self._lanes = lanes
        self._vector = vector_type("float", lanes)

    def elements(self, d: Values) -> Values:
        """B' times the elements of a patch, part after part."""
        made: Values = []
        at = 0
        for taps in self._form.parts:
            a, b, c, *last = d[at : at + taps + 1]
            if last:
                made += [self._less(a, c), self._add(b, c), self._less(c, b)]
                made.append(self._less(b, last[0]))
            else:
                made += [self._less(a, b), b, self._less(b, c)]
            at += taps
        return made

    def taps(self, g: Values) -> Values:
        """G times taps."""
        made: Values = []
        at = 0
        for taps in self._form.parts:
            a, b, *last = g[at : at + taps]
            if last:
                outer = self._add(a, last[0])
                halves = [self._half(self._add(outer, b)), self._half(self._less(outer, b))]
                made += [a, *halves, last[0]]
            else:
                made += [a, self._add(a, b), b]
            at += taps
        return made

    def results(self, m: Values) -> Values:
        """A' times products: two results, the parts added up."""
        found: list[Values] = []
        at = 0
        for taps in self._form.parts:
            a, b, c, *last = m[at : at + taps + 1]
            if last:
                pair = [self._add(a, self._add(b, c)), self._less(self._less(b, c), last[0])]
            else:
                pair = [self._add(a, b), self._less(b, c)]
            found.append(pair)
            at += taps + 1
        pair, *others = found
        for other in others:
            pair = [self._add(x, y) for x, y in zip(pair, other, strict=True)]
        return pair

    def _add(self, a: str, b: str) -> str:
        return self._w.let("sum", f"fadd {self._vector} {a}, {b}")

    def _less(self, a: str, b: str) -> str:
        return self._w.let("less", f"fsub {self._vector} {a}, {b}")

    def _half(self, value: str) -> str:
        half = self._w.splat("half", "float", "0.5", self._lanes)
        return self._w.let("half", f"fmul {self._vector} {value}, {half}")

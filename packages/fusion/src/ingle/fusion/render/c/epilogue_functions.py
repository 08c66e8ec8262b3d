"""What follows a product, as functions of one element in CUDA C++, for kernels that have the sums
in registers."""

from __future__ import annotations

from ...kernel.nest import Map, Nest
from .cuda import Cuda
from .inner import InnerNest
from .prepared import FIXED, UNIFORM, VARYING
from .text import Scope, value_type

EPILOGUE_VALUES, EPILOGUE_STORE = "epilogue_values", "epilogue_store"
EPILOGUE_FOUND = "epilogue_t"
"""The functions, and the type of what one gives and the other takes."""
_SHIFT = 1
"""A kernel's buffers are both factors, then the operands of the nest but its first, the sums."""


def epilogue_functions(nest: Nest, argument: str) -> str:
    """Two functions of an element: what is stored there, and storing it.

    A thread computes all its elements before it stores the first: an output may lie in the memory
    of an input, place by place. Both take a kernel's argument `given`, the indices `x0`, `x1` ...
    along the outer axes, and the column `i`; the first takes the sum as well, and gives an
    `epilogue_t`, which the second takes.

    Args:
        nest: an epilogue's; operand 0 is the sum. Its numbers are the first of the argument's.
        argument: the type `given_t` of the kernel's argument.
    """
    assert len(nest.stages) == 1
    assert isinstance(nest.stages[0], Map)
    return _EpilogueNest(nest, argument).render()


class _OfProduct(Cuda):
    """The argument of a kernel, where it is a function's."""

    def operand(self, k: int, kind: str) -> str:
        return super().operand(k + _SHIFT, kind)


_CUDA = _OfProduct()


class _EpilogueNest(InnerNest):
    """Writes both functions; the place in the nest is their arguments."""

    def __init__(self, nest: Nest, argument: str) -> None:
        super().__init__(nest, EPILOGUE_VALUES, _CUDA)
        self._argument_type = argument

    def render(self) -> str:
        """The functions, behind what they need."""
        stores = self.stages[0].stores
        code = self.stages[0].code
        fields = " ".join(f"{value_type(code[at].dtype)} at{k};" for k, at in stores)
        outer = "".join(f"const int64_t x{axis}, " for axis in range(self.nest.outer))
        kind = value_type(self.nest.operands[0].dtype)
        head = f"const given_t &given, {outer}const int64_t i"
        computed = self._computed()
        lines = [
            self._argument_type,
            f"struct {EPILOGUE_FOUND} {{ {fields} }};",
            f"static {EPILOGUE_FOUND} {EPILOGUE_VALUES}({head}, const {kind} sum)",
            *_in_braces([*self.head.lines(), *self.unit.lines(), *computed]),
        ]
        self.head, self.unit = Scope(), Scope()
        stored = Scope()
        for k, _ in stores:
            self.store(stored, k, self.element(k, "i"), f"found.at{k}")
        lines += [
            f"static void {EPILOGUE_STORE}({head}, const {EPILOGUE_FOUND} &found)",
            *_in_braces([*self.head.lines(), *self.unit.lines(), *stored.lines()]),
        ]
        return self.source.text("\n".join(lines))

    def _computed(self) -> list[str]:
        """The element's code."""
        stage, body = self.stages[0], Scope()
        done = self.known[0]
        for level, place in ((UNIFORM, None), (FIXED, None), (VARYING, "i")):
            done = self.code.render(
                stage.code, self.place_at(place or "0"), body, done, stage.places(level)
            )
        body.add(f"return {EPILOGUE_FOUND}{{{', '.join(done[at] for _, at in stage.stores)}}};")
        return body.lines()

    def element(self, k: int, index: str) -> str:
        return super().element(k, index) if k else "sum"

    def split(self, unit: str, axis: int, last: int) -> str:
        return f"x{axis}"


def _in_braces(lines: list[str]) -> list[str]:
    return ["{", *[f"    {line}" for line in lines], "}"]

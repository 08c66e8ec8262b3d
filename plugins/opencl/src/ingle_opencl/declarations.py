"""Building a program without the 18,000 lines of declarations that PoCL reads in front of each.

These are nine tenths of the time in which a small kernel is compiled. Generated kernels and the
templates of products call some twenty functions of OpenCL C, which are declared here as clang's own
header does, so that the machine code is the same. The header leaves itself out where the name of
its guard is defined. A source that calls others would be compiled twice, and the compiler would
write its errors to the terminal.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from ingle.fusion.device.opencl import PREAMBLE

WITHOUT = "-D _OPENCL_H_"
"""The option that leaves the header out."""

_PLATFORM = "Portable Computing Language"
_FLOATS = {
    "sqrt": 1, "floor": 1, "ceil": 1, "trunc": 1, "rint": 1, "fabs": 1, "fma": 3, "fmax": 2,
    "exp": 1, "log": 1,
}  # fmt: skip
"""Functions of float and double, and how many they take."""
_LANES = (2, 4, 8, 16)
"""Elements of a vector."""
_SCALARS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
_PLACES = (
    "get_global_id", "get_global_size", "get_global_offset", "get_local_id", "get_local_size",
    "get_group_id", "get_num_groups",
)  # fmt: skip


def _declarations() -> str:
    pure = "__attribute__((overloadable, const))"
    floats = {
        kind: "\n".join(
            [
                *[
                    f"{kind} {pure} {name}({', '.join([kind] * count)});"
                    for name, count in _FLOATS.items()
                ],
                *[f"{kind} {pure} {name}({kind}, {kind});" for name in ("min", "max")],
                f"int {pure} isfinite({kind});",
                *[line for lanes in _LANES for line in _vectors(kind, lanes)],
            ]
        )
        for kind in ("float", "double")
    }
    whole = [f"{s} {pure} {name}({s}, {s});" for s in _SCALARS for name in ("min", "max")]
    places = [f"size_t {pure} {name}(uint);" for name in _PLACES]
    barrier = (
        "void __attribute__((overloadable)) __attribute__((convergent)) "
        "barrier(cl_mem_fence_flags);"
    )
    return "\n".join(
        [floats["float"], "#ifdef cl_khr_fp64", floats["double"], "#endif", *whole, *places,
         barrier, ""]
    )  # fmt: skip


def _vectors(kind: str, lanes: int) -> list[str]:
    """What products do with a vector: tiles are loaded from memory and stored in registers."""
    function, vector = "__attribute__((overloadable))", f"{kind}{lanes}"
    return [
        f"{vector} __attribute__((overloadable, const)) fma({vector}, {vector}, {vector});",
        f"{vector} __attribute__((overloadable, pure)) "
        f"vload{lanes}(size_t, const __global {kind} *);",
        f"void {function} vstore{lanes}({vector}, size_t, {kind} *);",
    ]


DECLARATIONS = _declarations()
"""What stands in the place of the header: each function with all of its scalar types, so that a
call means what it means with the header, or nothing."""


class Programs:
    """Builds the programs of a device.

    Args:
        context: of the driver.
        platform: its name.
        options: for its compiler.

    Attributes:
        rebuilt: how many generated programs called what is not declared here.
    """

    def __init__(self, context: Any, platform: str, options: Sequence[str]) -> None:
        self._context = context
        self._options = list(options)
        self._short = platform == _PLATFORM
        self.rebuilt = 0

    def build(self, source: str) -> Any:
        """A program, compiled.

        Raises:
            pyopencl.Error: the driver's compiler refuses it.
        """
        import pyopencl as cl

        if self._short and source.startswith(PREAMBLE):
            try:
                return self._build(DECLARATIONS + source, [*self._options, WITHOUT])
            except cl.Error:  # it is wrong, or by hand, or this PoCL has another header
                self.rebuilt += 1
        return self._build(source, self._options)

    def _build(self, source: str, options: list[str]) -> Any:
        import pyopencl as cl

        if "PYOPENCL_COMPILER_OUTPUT" not in os.environ:
            # What a compiler says of a kernel that it has built is for whoever asks for it there.
            # Some have a word on most: a warning for users, and no kernel where that is an error.
            # (Not for this call alone: that would set the filters of other threads as well.)
            warnings.simplefilter("ignore", cl.CompilerWarning)
        program = cl.Program(self._context, source)
        # The drivers keep binaries themselves; False keeps pyopencl from doing so, too.
        return program.build(options=options, cache_dir=False)  # type: ignore[arg-type]

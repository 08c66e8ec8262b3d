"""Plans of kernels alone, written out as one Python function each.

A small plan takes a few microseconds, as long as it would take to go through lists of its steps. So
what one run does is written down once: inputs put in order, memory made, each segment called with
the addresses of its buffers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.errors import OutOfRangeError

from .passes.views import View

if TYPE_CHECKING:
    from .execution import KernelDevice, Ordered, Segment

Run = Callable[[Sequence[Handle], Any], list[Handle]]


def straight(
    device: KernelDevice,
    *,
    inputs: int,
    constants: Sequence[Ordered],
    own: Sequence[Aval],
    arena: int,
    segments: Sequence[tuple[Segment, Sequence[int]]],
    checks: Sequence[tuple[int, str]],
    outputs: Sequence[tuple[int, View | None]],
) -> Run:
    """The function of the inputs and the scalars that returns the outputs.

    Args:
        device: whose memory it is.
        inputs: how many there are; the first values.
        constants: the values after them.
        own: what the plan makes; the values after those.
        arena: how many bytes of memory the segments share.
        segments: each with the numbers of the values that are its buffers.
        checks: numbers of values that must hold zero, and what is wrong if they don't.
        outputs: numbers of values, and where the output is a view of one, that view.
    """
    names: dict[str, Any] = {
        "in_order": device.in_order, "empty": device.empty, "arena": device.arena,
        "viewed": device.viewed, "flag": ctypes.c_int32.from_address, "Error": OutOfRangeError,
    }  # fmt: skip
    lines: list[str] = []
    if inputs:
        lines.append("".join(f"v{i}, " for i in range(inputs)) + "= given")
        lines.extend(f"v{i} = in_order(v{i})" for i in range(inputs))
    for number, constant in enumerate(constants, inputs):
        names[f"v{number}"] = constant
    for number, aval in enumerate(own, inputs + len(constants)):
        names[f"aval{number}"] = aval
        lines.append(f"v{number} = empty(aval{number})")
    for number, (segment, roots) in enumerate(segments):
        names[f"segment{number}"] = segment
        buffers = "".join(f", v{r}.address" for r in roots)
        shared = f"arena({arena})" if arena else "0"
        lines.append(f"segment{number}(({shared}{buffers},), scalars)")
    for number, text in checks:
        lines.append(f"if flag(v{number}.address).value: raise Error({text!r})")
    shown = []
    for place, (number, view) in enumerate(outputs):
        shown.append(f"v{number}")
        if view is not None:
            shape, strides, offset = tuple(view.shape), tuple(view.strides), view.offset
            names[f"shape{place}"] = shape
            shown[-1] = (
                f"viewed(v{number}, Aval(shape{place}, v{number}.dtype), {strides}, {offset})"
            )
    names["Aval"] = Aval
    lines.append(f"return [{', '.join(shown)}]")
    source = "def run(given, scalars):\n    " + "\n    ".join(lines) + "\n"
    exec(source, names)
    run: Run = names["run"]
    return run

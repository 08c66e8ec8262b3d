"""What the launches of a plan do with its buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device import Launch, WholeCall, arguments_of


class BufferUse(NamedTuple):
    """What launches do with a buffer.

    Attributes:
        nbytes: its size.
        is_written: whether one writes to it.
        library_reads: whether an operation of a library reads it.
    """

    nbytes: int
    is_written: bool
    library_reads: bool


def buffer_uses(launches: Sequence[Launch]) -> dict[int, BufferUse]:
    """How launches use each of their buffers, by its number."""
    found: dict[int, BufferUse] = {}
    for launch in launches:
        by_library = isinstance(launch.call, WholeCall)
        for argument, place in zip(arguments_of(launch.call), launch.pointers, strict=True):
            _, written, read = found.get(place.buffer, (0, False, False))
            found[place.buffer] = BufferUse(
                place.nbytes,
                written or argument.output,
                read or (by_library and not argument.output),
            )
    return found

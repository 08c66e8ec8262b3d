"""Packing the windows of images into panels, without writing the windows to memory first.

    void pack_windows(source, window, k, column, depth, count, width, panel)

writes `panel[k' * width + j] = B[k + k', column + j]` for `k' < depth` and `j < count`, where B is
made of the windows of an image as `Windows` of `ingle.fusion` says and `WindowArgs` spells out;
what is between `count` and `width` stays as it is, and rows behind `depth` may be written, too.

There are two kernels. Where columns are places, neighbours along the last image axis are copied by
vectors; masks say which lanes of a tap are inside of the image. Where columns are taps, the lanes
of a vector are neighbouring places of one tap, and as many taps as a vector has lanes are
transposed in registers.
"""

from __future__ import annotations

from ingle.fusion.device.targets import Target

from ..jit.engine import IRSource
from .window_places import PlaceColumns
from .window_taps import TapColumns


def window_source(dtype: str, over_places: bool, target: Target) -> IRSource:
    """The module of one of the two kernels for a dtype in memory."""
    kind = "taps" if over_places else "places"
    name = f"pack_windows_{kind}_{dtype}_{target.name}"
    made = (TapColumns if over_places else PlaceColumns)(dtype, target, name)
    return IRSource(made.text(), (name,), reduced=False)

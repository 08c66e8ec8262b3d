"""Operations on half types whose code is shorter than that of their bodies, or of float32.

Their functions are as exact as their results: see `ingle.fusion.kernel.functions.short`. Which code
an operation has follows from its operand's dtype alone, so its bits are the same in every plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingle.tensor.operation import Op
from ingle.tensor.ops.elementwise.smooth_activations import CUBIC

from .expression import Expression
from .lowering_plain import Rule, instruction


def _gelu(op: Op, x: Sequence[Expression], out: str) -> Expression:
    wide = x[0].widen()
    if op.attributes["approximate"] == "none":
        return wide * wide.call("short_ndtr")
    # (1 + tanh(u)) / 2 is sigmoid(2 u).
    cubic = (wide * wide).fma(CUBIC, 1.0)
    return wide * (wide * cubic * math.sqrt(8 / math.pi)).call("short_sigmoid")


RULES: dict[str, Rule] = {
    "gelu": _gelu,
    "sigmoid": instruction("short_sigmoid"),
    "tanh": instruction("short_tanh"),
}

"""Operations on half types whose code is shorter than that of their bodies, or of float32.

Their functions are as exact as their results: see `ingle.fusion.kernel.functions.short`. Which code
an operation has follows from its operand's dtype alone, so its bits are the same in every plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingle.tensor.operation import Op
from ingle.tensor.ops.elementwise.smooth_activations import CUBIC

from .expression import Expression, where
from .functions.short import exp_of_negative, log1p_of_unit
from .lowering_plain import Rule, instruction

_ONE, _NOTHING = 20.0, -120.0
"""Where mish is its argument, and where it is no number's product with that."""


def _gelu(op: Op, x: Sequence[Expression], out: str) -> Expression:
    wide = x[0].widen()
    if op.attributes["approximate"] == "none":
        return wide * wide.call("short_ndtr")
    # (1 + tanh(u)) / 2 is sigmoid(2 u).
    cubic = (wide * wide).fma(CUBIC, 1.0)
    return wide * (wide * cubic * math.sqrt(8 / math.pi)).call("short_sigmoid")


def _softplus(op: Op, x: Sequence[Expression], out: str) -> Expression:
    wide, beta, threshold = (operand.widen() for operand in x)
    scaled = wide * beta
    found = scaled.at_least(0.0) + log1p_of_unit(exp_of_negative(abs(scaled)))
    # The reciprocal is a number of the call, and found once.
    return where(scaled > threshold, wide, found * (1.0 / beta))


def _mish(op: Op, x: Sequence[Expression], out: str) -> Expression:
    """tanh(log(1 + e)) is n / (n + 2) with n = e (e + 2)."""
    wide = x[0].widen()
    e = (wide.at_most(_ONE).at_least(_NOTHING) * (1 / math.log(2))).call("short_exp2")
    n = e * (e + 2.0)
    return wide * (n * (n + 2.0).call("short_reciprocal"))


RULES: dict[str, Rule] = {
    "gelu": _gelu,
    "mish": _mish,
    "sigmoid": instruction("short_sigmoid"),
    "softplus": _softplus,
    "tanh": instruction("short_tanh"),
}

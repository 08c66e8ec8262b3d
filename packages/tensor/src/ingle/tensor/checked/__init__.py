"""Samples and references of the public functions that have no operation of their own.

Such functions are made of operations: they need no rule and no gradient, but the testkit checks
them as it checks operations. It loads these modules; nothing else does.
"""

from . import (
    arrangements,
    calibration,
    creation,
    elimination,
    losses,
    matrices,
    missing,
    movement,
    numbers,
    quantization,
    repeats,
    slopes,
    systems,
    windows,
)

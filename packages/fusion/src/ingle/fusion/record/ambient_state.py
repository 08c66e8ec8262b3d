"""What surrounds a call and changes what is recorded: defaults of dtypes and device, precision,
`no_grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingle.tensor.device import chosen_device
from ingle.tensor.dtypes import default_float, default_int
from ingle.tensor.plugins import transform
from ingle.tensor.precision import chosen_precision


def ambient() -> tuple[Any, ...]:
    """Equal answers mean that the same is recorded."""
    return tuple([ask() for ask in asked()])


def asked() -> tuple[Callable[[], Any], ...]:
    """The functions whose answers are `ambient`."""
    recorded = transform("recorded_from")
    return (
        chosen_device, default_float, default_int, chosen_precision,
        *(() if recorded is None else (recorded,)),
    )  # fmt: skip

"""What plugins say and bring, and whether it is what a plugin must bring."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from .contract import CONTRACT_VERSION, Backend
from .device import Device
from .dtypes import as_dtype
from .errors import BackendError, DTypeError


@dataclass(frozen=True, slots=True)
class BackendDescription:
    """What a plugin says of its backend before anything heavy is loaded.

    Attributes:
        create: makes the backend of the device with the given index.
        count: how many devices there are now; 0 with `missing` as the reason.
        priority: the default device is the one with the highest priority; numpy has 0.
        contract: the contract version it was written for.
        summary: one line for `ingle info`.
        missing: why `count` is 0, and what the user can do.
    """

    create: Callable[[int], Backend]
    count: Callable[[], int] = lambda: 1
    priority: int = 0
    contract: int = CONTRACT_VERSION
    summary: str = ""
    missing: str = ""


@dataclass(slots=True)
class Discovery:
    """What was found: names to `"module:attribute"`, and failures by the plugin's name."""

    plugins: dict[str, str] = field(default_factory=dict)
    backends: dict[str, str] = field(default_factory=dict)
    transforms: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    loggers: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)


def check_answers(found: Discovery, kind: str, maps: list[Any]) -> None:
    """Raises for what hooks of a kind answered, if it is no table or takes a name that is taken."""
    for answer in maps:
        items = answer.items() if isinstance(answer, dict) else [(answer, None)]
        for key, place in items:
            if not isinstance(place, str) or ":" not in place:
                raise TypeError(
                    f"ingle_{kind} must return a dict of names to 'module:attribute' strings, "
                    f"got {answer!r}"
                )
            if kind == "backends":
                check_name(key)
            if key in getattr(found, kind):
                owner = found.owners[f"{kind}:{key}"]
                raise BackendError(
                    f"{kind[:-1]} {key!r} is already brought by plugin {owner!r}; "
                    "uninstall one of the two"
                )


_NAME = re.compile("[A-Za-z][A-Za-z0-9_.-]*")


def check_name(name: object) -> None:
    """Raises for what `Device.parse` would not read back as the name of a device."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BackendError(
            f"a backend is named {name!r}; a name is a letter, and then letters, digits, '_', '-' "
            "and '.', such as 'cuda'"
        )
    if dtype_of(name) is not None:
        raise BackendError(
            f"a backend is named {name!r}, which is a dtype, and x.to({name!r}) has to be clear; "
            "choose another name"
        )


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "create": (callable, "a function of an index"),
    "count": (callable, "a function without arguments"),
    "priority": (lambda value: type(value) is int, "an int"),
    "summary": (lambda value: isinstance(value, str), "a string"),
    "missing": (lambda value: isinstance(value, str), "a string"),
}


def check_fields(name: str, description: BackendDescription) -> None:
    """Raises for a description with something else in its fields than what they are for."""
    for key, (fits, wanted) in _FIELDS.items():
        value = getattr(description, key)
        if not fits(value):
            raise BackendError(
                f"backend {name!r}: its description has {key}={value!r}, {wanted} was expected; "
                "this is a mistake in its plugin"
            )


def check_made(where: Device, made: object) -> None:
    """Raises for what a plugin made in place of the backend of a device."""
    what = f"backend {where.name!r}: create({where.index}) returned"
    members = [*Backend.__annotations__, *(m for m in vars(Backend) if not m.startswith("_"))]
    lacks = [m for m in members if not hasattr(made, m)]
    if lacks:
        raise BackendError(
            f"{what} {made!r}, which lacks {', '.join(lacks)} of ingle.tensor.contract.Backend; "
            "this is a mistake in its plugin"
        )
    device = cast(Backend, made).device
    if device != where:
        raise BackendError(
            f"{what} the backend of device {str(device)!r}, and '{where.name}:{where.index}' was "
            "asked for; this is a mistake in its plugin"
        )


def dtype_of(name: str) -> str | None:
    """The dtype that somebody took for a device: `model.to("float64")`, `x.to("half")`."""
    try:
        return as_dtype(name).name if len(name) > 2 else None
    except (DTypeError, TypeError, ValueError, SyntaxError):  # NumPy parses lists of fields
        return None

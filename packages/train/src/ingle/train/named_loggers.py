"""Loggers by name, from every plugin that is installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ingle.tensor.argument_checks import did_you_mean
from ingle.tensor.errors import ArgumentError, MissingPackageError
from ingle.tensor.plugins import discover, failure_lines, load_attribute

from .callbacks import Callback
from .errors import TrainingError

Target = str | os.PathLike[str]
Loggers = Mapping[str, Target | Mapping[str, Any]]
"""A place to write to for each logger's name, or a dict of what it is called with."""


def loggers() -> tuple[str, ...]:
    """The names that `make_logger` knows here.

    >>> from ingle.train import loggers
    >>> {"csv", "jsonl", "mlflow", "tensorboard"} <= set(loggers())
    True
    """
    return tuple(sorted(discover().loggers))


def make_logger(name: str, *target: Target, **options: Any) -> Callback:
    """A logger that an installed package brings by the hook `ingle_loggers`.

    Args:
        name: such as "csv", "jsonl", "tensorboard" or "mlflow"; `loggers` lists them.
        target: the place to write to: a file, a folder, an address.
        options: what else the logger takes.

    Raises:
        MissingPackageError: no installed package brings it, or one that it needs is not there.
        ArgumentError: it does not take these options.
        TrainingError: its plugin is broken.

    >>> import tempfile
    >>> from ingle.train import make_logger
    >>> logger = make_logger("jsonl", tempfile.mkdtemp() + "/log.jsonl", every=10)
    >>> type(logger).__name__, logger.every
    ('JSONLLogger', 10)
    """
    known = discover()
    place = known.loggers.get(name)
    if place is None:
        guess = did_you_mean(name, known.loggers, ".")
        have = ", ".join(map(repr, loggers())) or "none"
        raise MissingPackageError(
            f"no logger named {name!r}{guess} Installed: {have}.{failure_lines(known)}\n"
            "  A logger comes with a package that has an entry point in the group 'ingle'"
        )
    owner = f"logger {name!r} of plugin {known.owners[f'loggers:{name}']!r}"
    try:
        make = load_attribute(place)
    except Exception as error:  # a stranger's plugin
        raise TrainingError(f"{owner} cannot be loaded: {type(error).__name__}: {error}") from error
    try:
        made = make(*target, **options)
    except TypeError as error:
        raise ArgumentError(f"{owner}: {error}; it was given {target!r} and {options!r}") from error
    if not isinstance(made, Callback):
        raise TrainingError(
            f"{owner}: {place} gave a {type(made).__name__}, an ingle.train.Callback was expected; "
            "this is a mistake in its plugin"
        )
    return made


def make_loggers(given: Loggers) -> list[Callback]:
    """The loggers of `Learner(..., loggers=)`."""
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"Learner: loggers must be a dict such as {{'csv': 'runs/first/epochs.csv'}}, got "
            f"{given!r:.80}; give loggers that are made already as callbacks=[...]"
        )
    return [
        make_logger(name, **to) if isinstance(to, Mapping) else make_logger(name, to)
        for name, to in given.items()
    ]

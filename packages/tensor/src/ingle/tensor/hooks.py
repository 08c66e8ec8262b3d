"""The hooks of the entry-point group `ingle`: all that a plugin can tell Ingle.

A plugin's module is imported when anyone looks for plugins, so it must be light: hooks answer with
`"module:attribute"` strings, and what they name is imported when it is first used.
"""

from __future__ import annotations

import pluggy

hookspec = pluggy.HookspecMarker("ingle")
hookimpl = pluggy.HookimplMarker("ingle")


@hookspec
def ingle_backends() -> dict[str, str]:  # type: ignore[empty-body]
    """Backends by device name: `{"cuda": "ingle_cuda.plugin:description"}`.

    The attribute is a `BackendDescription`: how many devices there are, why there are none, the
    priority, and a factory that makes the backend of a device's index.
    """


@hookspec
def ingle_transforms() -> dict[str, str]:  # type: ignore[empty-body]
    """What autodiff brings to tensors and cells, by name; see `ingle.tensor.plugins.transform`."""


@hookspec
def ingle_commands() -> dict[str, str]:  # type: ignore[empty-body]
    """Subcommands of `ingle` by name: `{"serve": "ingle_serve.cli:Serve"}`.

    The attribute is a class, module or object with three members (`ingle.tensor.cli.Command`):
    `help`, one line; `configure(parser)`, which adds arguments to an `argparse.ArgumentParser`;
    and `run(args)`, which does the work and returns the exit code (None counts as 0).
    """


@hookspec
def ingle_loggers() -> dict[str, str]:  # type: ignore[empty-body]
    """What keeps the numbers of trainings: `{"mlflow": "ingle.train.mlflow:MLflowLogger"}`.

    The attribute is called with the place to write to, and with options by name; it returns an
    `ingle.train.Callback`. `ingle.train.make_logger` and `Learner(..., loggers=)` find it.
    """

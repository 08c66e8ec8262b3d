"""What goes wrong while a function is compiled."""

from __future__ import annotations

from ingle.tensor.errors import IngleError


class CompileError(IngleError, RuntimeError):
    """A function cannot be compiled as it is written."""


class LeakError(IngleError, RuntimeError):
    """A tensor of a compiled function was used after the function had returned."""


class GraphFormatError(IngleError, ValueError):
    """A text is not a graph that can be read here."""


class PlanWarning(UserWarning):
    """Recorded operations could not run as a plan; their results are right, and came slower."""

"""What goes wrong while a function is compiled."""

from __future__ import annotations

from ingle.tensor.errors import IngleError


class CompileError(IngleError, RuntimeError):
    """A function cannot be compiled as it is written.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import CompileError, compile
    >>> try:
    ...     compile(lambda x: 2.0 if x.sum() > 0 else 1.0)(it.ones(3))
    ... except CompileError as error:
    ...     print(type(error).__name__)
    CompileError
    """


class LeakError(IngleError, RuntimeError):
    """A tensor of a compiled function was used after the function had returned.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import LeakError, compile
    >>> kept = []
    >>> _ = compile(lambda x: kept.append(x * 2.0) or x + 1.0)(it.ones(3))
    >>> try:
    ...     kept[0].tolist()
    ... except LeakError as error:
    ...     print(type(error).__name__)
    LeakError
    """


class GraphFormatError(IngleError, ValueError):
    """A text is not a graph that can be read here.

    >>> from ingle.fusion import GraphFormatError, loads
    >>> try:
    ...     loads("no graph")
    ... except GraphFormatError as error:
    ...     print(str(error).partition(":")[0])
    this is not the text of a graph
    """


class PlanWarning(UserWarning):
    """Recorded operations could not run as a plan; their results are right, and came slower.

    >>> import warnings
    >>> from ingle.fusion import PlanWarning
    >>> with warnings.catch_warnings():  # a test that must not fall back to single operations
    ...     warnings.simplefilter("error", PlanWarning)
    """

"""The exceptions of Ingle. Each derives from the built-in that a caller would catch."""

import numpy as np


class IngleError(Exception):
    """Base of everything that Ingle raises on purpose."""


class ShapeError(IngleError, ValueError):
    """Shapes do not fit the operation."""


class DTypeError(IngleError, TypeError):
    """Dtypes do not fit the operation."""


class DeviceError(IngleError, ValueError):
    """Tensors live on devices that cannot meet in one operation, or a device does not exist."""


class AxisError(IngleError, ValueError, IndexError):
    """An axis is out of range, repeated or missing."""


class OutOfRangeError(IngleError, IndexError):
    """An index points outside of the axis it indexes."""


class ArgumentError(IngleError, ValueError):
    """An argument that is no shape, dtype or axis has a value that makes no sense."""


class SettingError(ArgumentError):
    """A variable of the environment, `INGLE_*`, has a value that makes no sense."""


class LinearAlgebraError(IngleError, np.linalg.LinAlgError):
    """A matrix is singular, not positive definite, or its decomposition does not converge."""


class OperandError(IngleError, TypeError):
    """Something that is no tensor and no number was given to an operation."""


class BackendError(IngleError, RuntimeError):
    """A backend is missing, broken, or cannot do what was asked of it."""


class LostDeviceError(BackendError):
    """A device does not answer any more: it was taken away, reset or crashed.

    What was in its memory is gone. Backends raise it where their library says so.

    Attributes:
        device: which one, where that is known.
    """

    device: object = None


class GradientError(IngleError, RuntimeError):
    """Gradients were asked for where there are none."""


class AnomalyError(IngleError, ArithmeticError):
    """Inside `anomaly()` an operation gave NaN; the message names it, its module and its line.

    Attributes:
        backward: whether it was in a backward pass.
    """

    backward: bool = False


class BatchError(IngleError, RuntimeError):
    """Inside `vmap` something was asked for that one element of a batch cannot have."""


class TraceError(IngleError, RuntimeError):
    """A value was asked for that does not exist, since what makes it is only being traced."""


class OutOfMemoryError(IngleError, MemoryError):
    """A device has no memory left, or its limit is reached.

    Attributes:
        requested: how many bytes were asked for.
        statistics: of the device's pool when they were.
    """

    def __init__(self, message: str, requested: int = 0, statistics: object = None) -> None:
        super().__init__(message)
        self.requested = requested
        self.statistics = statistics


_OF_ARGUMENTS = (
    ShapeError, DTypeError, DeviceError, AxisError, OutOfRangeError, ArgumentError,
    LinearAlgebraError, OperandError,
)  # fmt: skip


def spoken_by(name: str, error: IngleError, context: str = "") -> IngleError:
    """An error about an argument in the name of the function whose argument it is.

    Functions and composites are made of others: what these raise names them, and the user has
    called something else. Errors that name it already, or are about no argument, stay as they are.

    Args:
        name: of what the user has called.
        error: what was raised inside.
        context: what is said behind the message.
    """
    said = str(error)
    if not isinstance(error, _OF_ARGUMENTS) or said.startswith((f"{name}:", f"{name} ")):
        return error
    return type(error)(f"{name}: {said}{context}")


class MissingPackageError(IngleError, ImportError):
    """A separately installed part of Ingle is needed; the message names it."""

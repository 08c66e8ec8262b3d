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


class LinearAlgebraError(IngleError, np.linalg.LinAlgError):
    """A matrix is singular, not positive definite, or its decomposition does not converge."""


class OperandError(IngleError, TypeError):
    """Something that is no tensor and no number was given to an operation."""


class BackendError(IngleError, RuntimeError):
    """A backend is missing, broken, or cannot do what was asked of it."""


class GradientError(IngleError, RuntimeError):
    """Gradients were asked for where there are none."""


class BatchError(IngleError, RuntimeError):
    """Inside `vmap` something was asked for that one element of a batch cannot have."""


class MissingPackageError(IngleError, ImportError):
    """A separately installed part of Ingle is needed; the message names it."""

"""The exceptions of `ingle.train`."""

from ingle.optim import NonFiniteError
from ingle.tensor.errors import IngleError


class TrainingError(IngleError, RuntimeError):
    """Training cannot go on as asked."""


class NonFiniteLossError(TrainingError, NonFiniteError):
    """The loss or a weight became NaN or infinite.

    Attributes:
        step: how many steps were done before.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class CheckpointWarning(UserWarning):
    """A folder of checkpoints is not as it was left; the training goes on."""

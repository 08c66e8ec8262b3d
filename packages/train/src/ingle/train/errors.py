"""The exceptions of `ingle.train`."""

import math
from pathlib import Path

from ingle.optim import NonFiniteError
from ingle.tensor.errors import IngleError


class TrainingError(IngleError, RuntimeError):
    """Training cannot go on as asked.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> from ingle.train import Learner
    >>> model = nn.Linear(1, 1)
    >>> learner = Learner(model, optim.SGD(model, lr=0.1), it.mse_loss, progress=False)
    >>> learner.fit([it.ones((4, 1))], epochs=1)
    Traceback (most recent call last):
        ...
    ingle.train.errors.TrainingError: Learner: a batch must be (inputs, targets), got Tensor; \
arrays become batches in Loader(ArrayDataset(x, y), 32, shuffle=True); override Learner.forward \
for batches of another form
    """


class NonFiniteLossError(TrainingError, NonFiniteError):
    """The loss or a weight became NaN or infinite.

    Attributes:
        step: how many steps were done before.
        value: of the loss; NaN for weights.

    >>> from ingle.train import NonFiniteLossError
    >>> NonFiniteLossError("the loss is inf", 7, float("inf")).step
    7
    """

    def __init__(self, message: str, step: int, value: float = math.nan) -> None:
        super().__init__(message)
        self.step = step
        self.value = value


class TrainingInterruptedError(KeyboardInterrupt):
    """Ctrl-C ended training, after a whole step; the message says how to go on.

    Attributes:
        step: how many steps were done.
        checkpoint: the file to resume from; None if there is none.

    >>> from ingle.train import TrainingInterruptedError
    >>> issubclass(TrainingInterruptedError, KeyboardInterrupt)
    True
    """

    def __init__(self, message: str, step: int, checkpoint: Path | None) -> None:
        super().__init__(message)
        self.step = step
        self.checkpoint = checkpoint


class AugmentationWarning(UserWarning):
    """What trains is normalized, what is evaluated is not.

    >>> import warnings
    >>> from ingle.train import AugmentationWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", AugmentationWarning)  # the loader does it already
    """


class CheckpointWarning(UserWarning):
    """A folder of checkpoints is not as it was left; the training goes on.

    >>> import warnings
    >>> from ingle.train import CheckpointWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", CheckpointWarning)  # for a job that should rather stop
    """

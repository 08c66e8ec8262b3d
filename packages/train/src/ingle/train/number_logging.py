"""Sending the numbers of a training to whatever keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ingle.tensor.argument_checks import whole

from .callbacks import Callback, Record

if TYPE_CHECKING:
    from .learner import Learner

_PLACE = ("epoch", "step")
"""What of a record says when it was, and is no number to draw."""


class NumberWriter(Protocol):
    """What keeps numbers by name and step: a file, a table, a service.

    >>> from ingle.train import NumberWriter
    >>> class Kept:
    ...     def __init__(self): self.rows = []
    ...     def begin(self, step): self.rows = [row for row in self.rows if row[0] <= step]
    ...     def write(self, step, numbers): self.rows.append((step, dict(numbers)))
    ...     def close(self): pass
    >>> writer: NumberWriter = Kept()
    >>> writer.write(1, {"loss": 0.5})
    """

    def begin(self, step: int) -> None:
        """Training begins, or goes on, after this step; numbers of later steps are void."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Keeps numbers, by name, of the time after a step."""

    def close(self) -> None:
        """Training has ended; it may begin again."""


class NumberLogger(Callback):
    """Sends the numbers of steps, evaluations and epochs to a `NumberWriter`.

    Steps have "loss" and "lr", and "lr/1", "lr/2" of further groups of the optimizer; evaluations
    "valid/NAME", epochs the numbers of the record.

    Args:
        writer: what keeps them.
        every: send each so many steps; 0 for evaluations and epochs alone.

    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Learner, NumberLogger
    >>> class Kept:
    ...     rows = []
    ...     def begin(self, step): self.rows.clear()
    ...     def write(self, step, numbers): self.rows.append((step, sorted(numbers)))
    ...     def close(self): pass
    >>> model = nn.Linear(1, 1)
    >>> x = np.ones((4, 1), np.float32)
    >>> learner = Learner(model, optim.SGD(model, lr=0.1), it.mse_loss,
    ...                   callbacks=[NumberLogger(Kept())], progress=False)
    >>> history = learner.fit(Loader(ArrayDataset(x, x), 4), epochs=1)
    >>> Kept.rows
    [(1, ['loss', 'lr']), (1, ['seconds', 'train/loss', 'waited'])]
    """

    def __init__(self, writer: NumberWriter, *, every: int = 1) -> None:
        self.writer = writer
        self.every = whole(type(self).__name__, "every", every, least=0)

    def on_fit_start(self, learner: Learner) -> None:
        self.writer.begin(learner.steps)

    def on_step(self, learner: Learner, loss: float) -> None:
        if self.every and learner.steps % self.every == 0:
            rates = {
                f"lr/{i}": float(group.rate.raw)
                for i, group in enumerate(learner.optimizer.groups)
                if i
            }
            self.writer.write(learner.steps, {"loss": loss, "lr": learner.last_lr, **rates})

    def on_evaluation(self, learner: Learner, record: Record) -> None:
        self._send(learner, record)

    def on_epoch(self, learner: Learner, record: Record) -> None:
        self._send(learner, record)

    def on_fit_end(self, learner: Learner) -> None:
        self.writer.close()

    def _send(self, learner: Learner, record: Record) -> None:
        known = (*_PLACE, "lr") if self.every else _PLACE
        numbers = {name: value for name, value in record.items() if name not in known}
        self.writer.write(learner.steps, numbers)

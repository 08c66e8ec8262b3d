"""An average of the weights, kept while training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingle.nn import AveragedModel, Module
from ingle.tensor.argument_checks import whole

from .callbacks import Callback, Snapshot

if TYPE_CHECKING:
    from .learner import Learner


class WeightAverage(Callback):
    """Keeps an average of the model's weights, and evaluates with it.

    After each step w' = decay * w' + (1 - decay) * w (Polyak and Juditsky, 1992, averaged all
    equally: `decay=None`). Training goes on with the weights themselves. Checkpoints keep the
    average, so that a resumed training has the same one.

    Args:
        model: the learner's.
        decay: how much of the average stays at each update; None for the mean of all updates.
        every: update after each so many steps.
        evaluate: whether evaluations are of the average. What `EarlyStopping(restore_best=True)`
            gives back are the model's own weights of the best step nevertheless.

    Attributes:
        average: an `ingle.nn.AveragedModel`; its `module` is the model with averaged weights.

    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Learner, WeightAverage
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    >>> model = nn.Linear(1, 1)
    >>> averaged = WeightAverage(model, decay=0.9)
    >>> learner = Learner(
    ...     model, optim.SGD(model, lr=0.5), it.mse_loss, callbacks=[averaged], progress=False)
    >>> history = learner.fit(Loader(ArrayDataset(x, 3 * x), 16), epochs=40)
    >>> round(averaged.average.module.weight.value.item(), 2)
    3.0
    """

    def __init__(
        self,
        model: Module,
        *,
        decay: float | None = 0.999,
        every: int = 1,
        evaluate: bool = True,
    ) -> None:
        self.every = whole("WeightAverage", "every", every, least=1)
        self.average = AveragedModel(model, decay)
        self.evaluate = evaluate
        self._own = Snapshot()

    def on_step(self, learner: Learner, loss: float) -> None:
        if learner.steps % self.every == 0:
            self.average.update_parameters(learner.model)

    def on_evaluate_start(self, learner: Learner) -> None:
        # Before the first update the average is a copy of the weights that training began with.
        if self.evaluate and self.average.n_averaged.raw.item():
            self._own.take(learner.model)
            learner.model.load_state_dict(self.average.module.state_dict())

    def on_evaluate_end(self, learner: Learner) -> None:
        self._own.give(learner.model)
        self._own = Snapshot()

    def parts(self) -> dict[str, Any]:
        return {"average": self.average}

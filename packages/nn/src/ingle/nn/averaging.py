"""Averages of a model's weights."""

from __future__ import annotations

import copy
from typing import Any

import ingle.tensor as it
from ingle.tensor import Cell, Tensor, transaction
from ingle.tensor.argument_checks import number
from ingle.tensor.errors import ArgumentError, OperandError

from .module import Module
from .parameter import Buffer
from .state import StateError


class AveragedModel(Module):
    """A copy of a model whose weights are an average of what these were.

    The mean of all updates, or an exponential moving average with a `decay`: PyTorch's
    `torch.optim.swa_utils.AveragedModel`, with `get_ema_multi_avg_fn(decay)`.

    Args:
        model: is copied.
        decay: how much of the average stays at each update; None for the mean.
        use_buffers: whether buffers are averaged, too; else they are the model's.

    >>> from ingle import nn
    >>> model = nn.Linear(2, 1)
    >>> average = nn.AveragedModel(model, decay=0.9)
    >>> average.update_parameters(model)
    >>> sorted(average.state_dict())
    ['module.bias', 'module.weight', 'n_averaged']
    """

    def __init__(
        self, model: Module, decay: float | None = None, use_buffers: bool = False
    ) -> None:
        if not isinstance(model, Module):
            raise OperandError(f"AveragedModel: model must be a module, got {model!r:.80}")
        if decay is not None and not 0.0 <= number("AveragedModel", "decay", decay) <= 1.0:
            raise ArgumentError(f"AveragedModel: decay must be None or in [0, 1], got {decay}")
        self.n_averaged = Buffer(it.asarray(0, dtype="int64"))
        self.module = copy.deepcopy(model)
        self.decay, self.use_buffers = decay, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes the model's weights into the average, all of them or none; also when compiled.

        Raises:
            StateError: another model.
        """
        mine, theirs = _cells(self.module), _cells(model)
        if [(n, c.shape) for n, c in mine] != [(n, c.shape) for n, c in theirs]:
            wrong = {n for n, _ in mine} ^ {n for n, _ in theirs}
            raise StateError(
                "AveragedModel.update_parameters: the model is not like the one that was copied; "
                f"different are {', '.join(sorted(wrong)) or 'shapes'}"
            )
        count = self.n_averaged.raw
        with transaction():
            for (_, old), (_, new) in zip(mine, theirs, strict=True):
                value = new.raw.detach()
                averages = not isinstance(old, Buffer) or self.use_buffers
                if averages and value.dtype.is_floating:
                    value = self._moved(old.raw, value, count)
                old.rebind(value)
            self.n_averaged.value = count + 1

    def _moved(self, old: Tensor, new: Tensor, count: Tensor) -> Tensor:
        if self.decay is None:
            return old + (new - old) / (count + 1).astype(old.dtype)
        part = it.where(count == 0, 1.0, it.asarray(1.0 - self.decay, dtype=old.dtype))
        return old + (new - old) * part

    def extra_repr(self) -> str:
        return f"decay={self.decay}, use_buffers={self.use_buffers}"


def _cells(module: Module) -> list[tuple[str, Cell[Tensor]]]:
    return [*module.named_parameters(), *module.named_buffers()]

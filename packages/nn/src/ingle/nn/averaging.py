"""Averages of a model's weights."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, TypeGuard

import ingle.tensor as it
from ingle.tensor import Cell, Tensor, transaction
from ingle.tensor.argument_checks import number
from ingle.tensor.errors import ArgumentError, OperandError

from .group_normalization import _InstanceNorm
from .module import Module
from .normalization import _BatchNorm
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
            OperandError: the model is no module.
            StateError: another model.
        """
        _require_module("AveragedModel.update_parameters", model)
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


def update_bn(batches: Iterable[Any], model: Module) -> None:
    """Gives the batch norms of a model the mean statistics of some batches: PyTorch's
    `torch.optim.swa_utils.update_bn`. Averaged weights have none that suit them.

    Args:
        batches: of inputs; of a tuple or list, such as a loader's, the first one is the input.
        model: is called with each batch; it is in the mode of before afterwards.

    Raises:
        OperandError: the model is no module.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> model = nn.Sequential(nn.BatchNorm1d(1))
    >>> nn.update_bn([it.asarray([[1.0], [3.0]]), it.asarray([[5.0], [7.0]])], model)
    >>> model[0].running_mean.value.tolist()
    [4.0]
    """
    _require_module("update_bn", model)
    modules = list(model.modules())
    modes = [(m, m.training) for m in modules]
    norms = [(m, m.momentum) for m in modules if _has_statistics(m)]
    if not norms:
        return
    try:
        model.train()
        for norm, _ in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean of all batches
        for batch in batches:
            model(batch[0] if isinstance(batch, (tuple, list)) else batch)
    finally:
        for norm, momentum in norms:
            norm.momentum = momentum
        for module, training in modes:
            module.training = training


def _has_statistics(module: Module) -> TypeGuard[_BatchNorm]:
    """Whether it is a batch norm that keeps running statistics."""
    kept = isinstance(module, _BatchNorm) and module.running_mean is not None
    return kept and not isinstance(module, _InstanceNorm)


def _require_module(who: str, model: object) -> None:
    if not isinstance(model, Module):
        raise OperandError(f"{who}: model must be a module, got {model!r:.80}")


def _cells(module: Module) -> list[tuple[str, Cell[Tensor]]]:
    return [*module.named_parameters(), *module.named_buffers()]

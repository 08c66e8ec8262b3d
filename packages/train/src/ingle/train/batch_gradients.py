"""The gradients of a batch: on one device, or from parts of it on several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingle.autodiff import no_grad
from ingle.tensor import Device, Gradients, Tensor
from ingle.tensor.device import backend_of
from ingle.tensor.errors import ArgumentError, MissingPackageError

from . import nonfinite
from .arguments import check_loss
from .batches import detached, samples_in, targets_of, to_train_on

if TYPE_CHECKING:
    from .learner import Learner


def checked(devices: Sequence[Device | str]) -> list[Device]:
    """The devices.

    Raises:
        ArgumentError: a single name was given, or one twice.
        BackendError: there is no such device.
        MissingPackageError: ingle-router is not installed.
    """
    if isinstance(devices, (str, Device)):
        raise ArgumentError(
            f"Learner: devices must be a list, got {devices!r}; write [{devices!r}]"
        )
    found = [Device.parse(device) for device in devices]
    for device in found:
        backend_of(device)
    if len(set(found)) < len(found):
        raise ArgumentError(
            f"Learner: devices has one of them twice: {', '.join(map(str, found))}; each computes "
            "its part of a batch once"
        )
    if found:
        _data_parallel()
    return found


def compute(learner: Learner, batch: Any) -> tuple[float, Gradients]:
    """The mean loss of a batch, which goes to the metrics, and its gradients, scaled."""
    return _on_several(learner, batch) if learner.devices else _on_one(learner, batch)


def wait(learner: Learner) -> None:
    """Waits for the devices of the model, where a step is looked at closely."""
    if learner.spans.exact or learner.spans.always:
        backends = {id(p.raw.backend): p.raw.backend for p in learner.model.parameters()}
        for backend in backends.values():
            backend.synchronize()


def _on_one(learner: Learner, batch: Any) -> tuple[float, Gradients]:
    with learner.spans("forward"):
        tensors = to_train_on(batch, learner)
        outputs, loss = learner.forward_precisely(tensors)
        check_loss(loss)
        value = float(loss)
    if not math.isfinite(value):
        raise nonfinite.error(learner, value, tensors)
    with learner.spans("metrics"), no_grad():
        for metric in learner.metrics:
            metric.update(detached(outputs), targets_of(tensors), value)
    with learner.spans("backward"):
        found = learner.scaler.scale(loss).backward()
        wait(learner)
    return value, found


def _on_several(learner: Learner, batch: Any) -> tuple[float, Gradients]:
    """The same from parts of the batch, with gradients averaged to those of the whole."""
    seen: list[tuple[int, Any, Any, Tensor]] = []

    def loss_of(part: Any) -> Tensor:
        outputs, loss = learner.forward_precisely(part)
        check_loss(loss)
        seen.append((samples_in(part), detached(outputs), targets_of(part), loss.detach()))
        return learner.scaler.scale(loss)

    with learner.spans("devices"):
        tensors = to_train_on(batch, learner)
        _, found = _data_parallel()(loss_of, tensors, devices=learner.devices)
        losses = [float(loss) for _, _, _, loss in seen]
    value = math.fsum(loss * one[0] for loss, one in zip(losses, seen, strict=True))
    value /= sum(one[0] for one in seen)
    if not math.isfinite(value):
        raise nonfinite.error(learner, value, tensors)
    with learner.spans("metrics"), no_grad():
        for (_, outputs, targets, _), loss in zip(seen, losses, strict=True):
            for metric in learner.metrics:
                metric.update(outputs, targets, loss)
    return value, found


def _data_parallel() -> Any:
    try:
        from ingle.router import data_parallel
    except ImportError:
        raise MissingPackageError(
            "Learner: devices=[...] needs ingle-router; install it with `pip install ingle-router`"
        ) from None
    return data_parallel

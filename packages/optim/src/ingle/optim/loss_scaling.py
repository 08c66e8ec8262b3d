"""Scaled losses, so that small gradients do not become zero in float16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ingle.tensor as it
from ingle.tensor import Cell, Gradients, Tensor
from ingle.tensor.argument_checks import number, whole
from ingle.tensor.errors import ArgumentError, OperandError
from ingle.tensor.precision import suspended
from ingle.tensor.structure import Structured

from ._gradients import require_gradients
from .optimizer import Optimizer


class LossScaler(Structured):
    """Multiplies losses by a factor that follows what float16 can hold.

    Gradients in float16 below 6e-8 are zero. A loss that is multiplied by the scale moves them up;
    `step` divides them again, in float32. If one of them is infinite or NaN the scale was too
    large: the step is skipped and `update` makes the scale smaller. After `growth_interval` steps
    that were taken, it makes it larger. Micikevicius et al.: Mixed precision training (ICLR 2018).
    The numbers are those of PyTorch's `GradScaler`. bfloat16, which has float32's range, needs none
    of it.

    In plain code a skipped step leaves the optimizer as it was. In a compiled function nobody waits
    for the gradients: parameters and moments keep their values, but the counts of steps, which are
    Python's numbers, go on.

    Args:
        init_scale: the first scale.
        growth_factor: what the scale is multiplied by to make it larger, above 1.
        backoff_factor: what it is multiplied by after a skipped step, between 0 and 1.
        growth_interval: after how many steps in a row without a skipped one it grows.
        enabled: False makes `scale` and `unscale` return what they get, and `step` step.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> w, scaler = nn.Parameter([2.0]), optim.LossScaler(init_scale=1024.0, growth_interval=2)
    >>> optimizer = optim.SGD([w], lr=0.25)
    >>> for factor in (1.0, float("inf"), 1.0):
    ...     with it.precision("float16"):
    ...         loss = (w * w).sum() * factor
    ...     grads = scaler.scale(loss).backward()
    ...     taken = scaler.step(optimizer, grads)
    ...     scaler.update()
    ...     w.value.tolist(), scaler.get_scale()
    ([1.0], 1024.0)
    ([1.0], 512.0)
    ([0.5], 512.0)
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        who = "LossScaler"
        scale = number(who, "init_scale", init_scale)
        self.growth_factor = number(who, "growth_factor", growth_factor)
        self.backoff_factor = number(who, "backoff_factor", backoff_factor)
        for name, value, fits, bound in (
            ("init_scale", init_scale, scale > 0, "above 0"),
            ("growth_factor", growth_factor, self.growth_factor > 1, "above 1"),
            ("backoff_factor", backoff_factor, 0 < self.backoff_factor < 1, "between 0 and 1"),
        ):
            if not fits:
                raise ArgumentError(f"{who}: {name} must be {bound}, got {value}")
        self.growth_interval = whole(who, "growth_interval", growth_interval, least=1)
        self.enabled = bool(enabled)
        self._scale = Cell(it.asarray(scale, dtype="float32"))
        self._taken = Cell(it.asarray(0, dtype="int32"))
        self._finite = Cell(it.asarray(True))

    def get_scale(self) -> float:
        """The scale now; waits for it."""
        return float(self._scale.raw.item()) if self.enabled else 1.0

    def scale(self, loss: Tensor) -> Tensor:
        """The loss in float32, times the scale: what `backward` is called on."""
        if not self.enabled:
            return loss
        if not isinstance(loss, Tensor) or not loss.dtype.is_floating:
            got = loss.dtype if isinstance(loss, Tensor) else type(loss).__name__
            raise OperandError(f"LossScaler.scale: expected a loss, a tensor of floats; got {got}")
        self._follow(loss)
        with suspended():
            wide = loss if loss.dtype.itemsize > 2 else loss.astype("float32")
            return wide * self._scale.raw.astype(wide.dtype)

    def _follow(self, x: Tensor) -> None:
        """The state goes where losses are."""
        if x.device != self._scale.raw.device:
            for cell in (self._scale, self._taken, self._finite):
                cell.rebind(cell.raw.to_device(x.device))

    def unscale(self, grads: Gradients) -> Gradients:
        """Gradients of a scaled loss as those of the loss, half types in float32."""
        require_gradients("LossScaler.unscale", grads, "scaler.unscale({})", "scaler.scale(loss)")
        if not self.enabled:
            return grads
        with suspended():
            factor = 1.0 / self._scale.raw
            return grads.map(lambda g: _wide(g) * factor.astype(_wide(g).dtype).to_device(g.device))

    def step(
        self, optimizer: Optimizer, grads: Gradients, *, unscaled: bool = False
    ) -> bool | None:
        """A step of the optimizer, or none if a gradient is infinite or NaN.

        Args:
            optimizer: clips what was unscaled, as it is told to.
            grads: of the scaled loss.
            unscaled: whether they are what `unscale` returned, clipped perhaps.

        Returns:
            Whether the step was taken; None in a compiled function, where nobody knows yet.
        """
        grads = grads if unscaled else self.unscale(grads)
        if not self.enabled:
            optimizer.step(grads)
            return True
        with suspended():
            finite = self._all_finite(grads)
            self._finite.value = it.logical_and(self._finite.raw, finite)
            if not finite._handle.base().abstract:
                taken = bool(finite.item())
                if taken:
                    optimizer.step(grads)
                return taken
            with it.transaction(flush=False) as scope:
                optimizer.step(grads)
                for cell, new in list(scope.writes.items()):
                    old = scope.before(cell)
                    if isinstance(new, Tensor) and isinstance(old, Tensor):
                        chosen = it.where(finite.to_device(new.device), new, old)
                        scope.writes[cell] = chosen.astype(new.dtype)
        return None

    def _all_finite(self, grads: Gradients) -> Tensor:
        where = self._scale.raw.device
        finite = it.asarray(True, device=where)
        for g in grads.tensors():
            finite = it.logical_and(finite, it.all(it.isfinite(g)).to_device(where))
        return finite

    def update(self) -> None:
        """The next scale, after the steps of all optimizers."""
        if not self.enabled:
            return
        with suspended():
            scale, finite = self._scale.raw, self._finite.raw
            taken = it.where(finite, self._taken.raw + 1, 0)
            grows = taken >= self.growth_interval
            grown = scale * self.growth_factor
            # It stays where the next one would be infinite.
            grown = it.where(it.isfinite(grown), grown, scale)
            kept = it.where(grows, grown, scale)
            with it.transaction(flush=False):
                self._scale.value = it.where(finite, kept, scale * self.backoff_factor)
                self._taken.value = it.where(grows, 0, taken)
                self._finite.value = it.logical_or(finite, True)

    def state_dict(self) -> dict[str, Any]:
        """The scale and what it follows, under PyTorch's names."""
        return {
            "scale": self.get_scale(),
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": int(self._taken.raw.item()),
        }

    def load_state_dict(self, mapping: Mapping[str, Any], strict: bool = True) -> None:
        """Takes a `state_dict` back, Ingle's or PyTorch's.

        Args:
            mapping: the state.
            strict: False leaves what is missing as it is.

        Raises:
            ArgumentError: something is missing; nothing was set.
        """
        names = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
        missing = [n for n in names if n not in mapping]
        if missing and strict:
            raise ArgumentError(f"LossScaler.load_state_dict: {', '.join(missing)} is missing")
        with it.transaction():
            for name, cell in (("scale", self._scale), ("_growth_tracker", self._taken)):
                if name in mapping:
                    held = cell.raw
                    number = float(mapping[name])
                    cell.value = it.asarray(number, device=held.device).astype(held.dtype)
        self.growth_factor = float(mapping.get("growth_factor", self.growth_factor))
        self.backoff_factor = float(mapping.get("backoff_factor", self.backoff_factor))
        self.growth_interval = int(mapping.get("growth_interval", self.growth_interval))

    def __repr__(self) -> str:
        return (
            f"LossScaler(scale={self.get_scale()}, growth_factor={self.growth_factor}, "
            f"backoff_factor={self.backoff_factor}, growth_interval={self.growth_interval})"
        )


def _wide(g: Tensor) -> Tensor:
    return g if g.dtype.itemsize > 2 else g.astype("float32")

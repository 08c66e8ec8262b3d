"""One batch on several devices: parts of it side by side, and the gradients of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingle.tensor import Gradients, Tensor, asarray, device
from ingle.tensor.cell import Cell
from ingle.tensor.device import Device, backend_of
from ingle.tensor.errors import ArgumentError, OperandError, ShapeError
from ingle.tensor.moving import reduced, started
from ingle.tensor.pytree import flatten, unflatten
from ingle.tensor.transactions import Scope, scope_of, transaction


def data_parallel(
    function: Callable[..., Tensor], *batch: Any, devices: Sequence[Device | str]
) -> tuple[Tensor, Gradients]:
    """The loss of a batch and its gradients, computed in parts on several devices.

    The batch is cut along its first axis into as many consecutive parts as there are devices, as
    even as can be. Each part goes to its device; there the function reads its cells, whose values
    are moved to it, and its loss goes back. A mean of means is weighted by the sizes of the parts,
    so uneven parts give the loss and gradients of the whole batch too, up to rounding.

    Outside of compiled functions the devices add gradients themselves where they can, all at once
    (the capability `reduce`, GPUs with NCCL); else each is moved home, through the host where there
    is no other road, and added there.

    The part of the device that the batch comes from is run last: what the others need of it (rows,
    weights) is then in its queue before its own work, and nobody waits for that.

    What the function writes to cells (running statistics of normalization, random generators) is
    seen by the part that is run next and lands on the cell's own device, as if the parts were small
    batches one after the other. A part that reads what another one computed waits for it, so that
    with `BatchNorm` in training its forward pass begins behind that of the other.

    Args:
        function: of a part of each argument; returns the part's mean loss, a 0-d tensor.
        batch: tensors, or trees of them, of `n` rows each; NumPy's arrays are taken as tensors, and
            what else is no tensor comes to every part.
        devices: where the parts run; a batch of fewer rows uses the first ones.

    Returns:
        The loss, on the first device, and the gradients, each on the device of its cell.

    Raises:
        ArgumentError: there is no device.
        ShapeError: the tensors have different numbers of rows, or none.
        OperandError: the function returns something else than one tensor of shape ().

    >>> import ingle.tensor as it
    >>> from ingle.router import data_parallel
    >>> w = it.Cell(it.asarray(2.0, device="numpy"), differentiable=True)
    >>> x = it.asarray([1.0, 2.0, 3.0], device="numpy")
    >>> loss, grads = data_parallel(lambda x: it.mean(w * x), x, devices=["numpy"])
    >>> loss.item(), grads[w].item()
    (4.0, 2.0)
    """
    places = [Device.parse(d) for d in devices]
    if not places:
        raise ArgumentError("data_parallel: devices is empty; give router.devices")
    leaves = [asarray(x) if isinstance(x, np.ndarray) else x for x in flatten(batch)]
    rows = _rows(leaves)
    cuts = [rows * i // len(places) for i in range(len(places) + 1)]
    if rows < len(places):
        cuts = list(range(rows + 1))
    losses: list[Tensor] = []
    pieces: dict[Any, list[Tensor]] = {}
    homes: dict[Any, Device] = {}
    parts = [
        (place, (end - begin) / rows, _rows_on(place, leaves, begin, end))
        for place, begin, end in zip(places, cuts, cuts[1:], strict=False)
    ]
    home = next(x.device for x in leaves if isinstance(x, Tensor))
    with transaction(flush=False) as outside:  # a part that fails takes the others' writes along
        for place, weight, part in sorted(parts, key=lambda p: p[0] == home):
            with device(place):
                scope = _OnDevice(outside, place)
                with scope_of(scope):
                    loss = function(*unflatten(batch, part))
                    _check(loss)
                    # The next part waits for what it reads of this, and not for gradients.
                    scope.at_home()
                    found = loss.backward()
                outside.writes.update(scope.at_home())
            losses.append(loss.detach() * weight)
            _gather(found, weight, pieces, homes)
            if len(parts) > 1:  # each works while the next ones are put together
                del loss, found  # what nobody holds need not be computed
                started(backend_of(place))
    total = _added([losses], places[:1])[0]
    sums = _added(list(pieces.values()), [homes[key] for key in pieces])
    return total, Gradients(dict(zip(pieces, sums, strict=True)))


def _gather(
    found: Gradients, weight: float, pieces: dict[Any, list[Tensor]], homes: dict[Any, Device]
) -> None:
    """Adds the gradients of a part to the lists of their cells, and where the sums go."""
    for key in found:
        gradient = found._entries[key]
        homes.setdefault(key, key.raw.device if isinstance(key, Cell) else gradient.device)
        pieces.setdefault(key, []).append(gradient * weight)


def _rows_on(place: Device, leaves: Sequence[Any], begin: int, end: int) -> list[Any]:
    """A part of a batch, on the device that it is for."""
    return [x[begin:end].to_device(place) if isinstance(x, Tensor) else x for x in leaves]


def _added(parts: Sequence[list[Tensor]], homes: Sequence[Device]) -> list[Tensor]:
    """The sum of each list of tensors of several devices, on its home.

    By the devices' own road where they have one, all lists of the same devices at once; else the
    tensors are moved home one by one.
    """
    found: list[Tensor | None] = [None] * len(parts)
    alike: dict[tuple[Device, ...], list[int]] = {}
    for n, (part, home) in enumerate(zip(parts, homes, strict=True)):
        part.sort(key=lambda x: x.device != home)
        alike.setdefault(tuple([x.device for x in part]), []).append(n)
    for where, numbers in alike.items():
        if len(where) > 1:
            groups = [[x._handle for x in parts[n]] for n in numbers]
            handles = reduced(groups, backend_of(where[0]))
            for n, handle in zip(numbers, handles or (), strict=handles is not None):
                found[n] = Tensor(handle)
    sums = []
    for total, part, home in zip(found, parts, homes, strict=True):
        if total is None:
            total, *others = [x.to_device(home) for x in part]
            for other in others:
                total = total + other
        sums.append(total.to_device(home))
    return sums


class _OnDevice(Scope):
    """Shows tensors of cells on a device, wherever they are."""

    __slots__ = ("_device", "_home", "_moved", "_sent")

    def __init__(self, parent: Scope | None, where: Device) -> None:
        super().__init__(parent)
        self._device = where
        self._home: dict[Cell[Any], Device] = {}
        self._moved: dict[Cell[Any], tuple[Any, Tensor]] = {}
        self._sent: dict[Cell[Any], tuple[Any, Any]] = {}

    def read(self, cell: Cell[Any]) -> Any:
        value = super().read(cell)
        if not isinstance(value, Tensor):
            return value
        if cell not in self.writes:
            self._home[cell] = value.device
        if value.device == self._device:
            return value
        known = self._moved.get(cell)
        if known is None or known[0] is not value:
            known = self._moved[cell] = value, value.to_device(self._device)
        return known[1]

    def at_home(self) -> dict[Cell[Any], Any]:
        """What was written, on the devices where the cells are; each value is moved once."""
        for cell, value in self.writes.items():
            if cell not in self._sent or self._sent[cell][0] is not value:
                moves = isinstance(value, Tensor) and cell in self._home
                there = value.to_device(self._home[cell]) if moves else value
                self._sent[cell] = value, there
        return {cell: self._sent[cell][1] for cell in self.writes}


def _rows(leaves: Sequence[Any]) -> int:
    shapes = [x.shape for x in leaves if isinstance(x, Tensor)]
    sizes = {shape[0] if shape else 0 for shape in shapes}
    if len(sizes) != 1 or 0 in sizes:
        told = "none: write data_parallel(function, x, y, devices=...)"
        if shapes:
            told = f"shapes {', '.join(map(str, shapes))}"
        raise ShapeError(
            f"data_parallel: the tensors of a batch have the same number of rows, at least one; "
            f"got {told}"
        )
    return sizes.pop()


def _check(loss: object) -> None:
    if not isinstance(loss, Tensor) or loss.shape != ():
        got = f"shape {loss.shape}" if isinstance(loss, Tensor) else type(loss).__name__
        raise OperandError(
            f"data_parallel: the function returns the mean loss of its part, a tensor of shape "
            f"(), got {got}; reduce it with it.mean"
        )

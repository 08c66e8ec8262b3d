"""Images whose channels lie last: the layout of what is computed around convolutions.

A library that computes convolutions whole may be at its best where a pixel's channels lie side by
side. Where a device takes `conv_channels_last`, the graph is written so:

- a convolution, or the gradient of its images, gives its result with the channels last, and what
  others see is a view of that, with the axes as they are called;
- elementwise operations, reductions and joins on such views are done on what lies in memory, and
  give the same kind of view. So the layout goes on from one convolution to the next;
- an image that lies otherwise is copied once, for all convolutions that read it.

Weights, and the gradients of weights, stay in their order: these are small, and what else is done
with them, such as an optimizer's update, is in that order.

Sums over such images add up in the order in which these lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import OPERATIONS, Op, infer
from ingle.tensor.ops.convolution.channels_last import CHANNELS_LAST, from_last, to_last
from ingle.tensor.ops.convolution.gradients import CONV_WEIGHT_GRADIENT
from ingle.tensor.ops.elementwise.dependence import DEPEND
from ingle.tensor.ops.movement.shapes import PERMUTE_DIMS

from ..ir.reduction_axes import folded_axes
from ..kernel.lowering import reduction_of
from ..record.log import LazyHandle

Write = Callable[[Op, "Sequence[Handle | Scalar]"], "tuple[LazyHandle, ...]"]
LEAST_AXES = 4
"""Of images: sequences, of one image axis, stay as they are."""


class ChannelsLast:
    """The layout of images while a graph is written.

    Args:
        write: appends an operation to the graph.
        takes: whether the device computes an operation whole.

    Attributes:
        found: whether there is a convolution with the channels last.
    """

    def __init__(self, write: Write, takes: Callable[[Op, Sequence[Aval]], bool]) -> None:
        self.found = False
        self._write = write
        self._takes = takes
        self._views: dict[int, LazyHandle] = {}
        """For views of what was computed with the channels last that value."""
        self._turned: dict[int, LazyHandle] = {}
        """The same for other values that happen to lie so."""
        self._copied: dict[int, LazyHandle] = {}
        """And for values that do not a copy that does."""
        self._casts: dict[int, tuple[Op, LazyHandle]] = {}
        """What a cast was made of, which is read with the axes in another order instead."""
        self._repeated: set[int] = set()
        """Values that cost the same in any order."""

    def forget(self, count: int) -> None:
        """Values from this one on are no more."""
        for known in (self._views, self._turned, self._copied):
            for number in [n for n, h in known.items() if max(n, h.number) >= count]:
                del known[number]
        self._casts = {n: cast for n, cast in self._casts.items() if n < count}
        self._repeated = {n for n in self._repeated if n < count}
        self.found = bool(self._views)

    def written(
        self, op: Op, inputs: Sequence[Handle | Scalar], whole: bool
    ) -> tuple[LazyHandle, ...] | None:
        """The results of an operation, if it was written with the channels last.

        Args:
            whole: whether the device computes it whole as it is.
        """
        if op.operation in CHANNELS_LAST:
            return self._convolution(op, inputs) if whole else None
        if not self.found or not inputs:
            return None
        if op.operation is CONV_WEIGHT_GRADIENT:
            return self._weight_gradient(op, inputs) if whole else None
        traits = op.operation.traits
        if reduction_of(op) is not None:
            return self._reduction(op, inputs[0])
        if traits.kind == "elementwise" and op.operation.outputs == ("out",):
            return self._elementwise(op, inputs)
        if op.operation is DEPEND:
            return self._dependence(op, inputs)
        return self._join(op, inputs) if traits.access == "join" else None

    def note(self, op: Op, inputs: Sequence[Handle | Scalar], result: LazyHandle) -> None:
        """Looks at an operation that was written as it is."""
        rank = len(result.shape)
        if rank < LEAST_AXES or not inputs:
            return
        x = inputs[0]
        if not isinstance(x, LazyHandle) or op.operation.name == "broadcast_to":
            self._repeated.add(result.number)
        elif op.operation.traits.laws.converts:
            self._casts[result.number] = op, x
        elif op.operation is PERMUTE_DIMS and op.attributes["axes"] == from_last(rank):
            self._turned[result.number] = x

    def _convolution(
        self, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> tuple[LazyHandle, ...] | None:
        image, weight = inputs
        rank = len(image.shape)
        turned = CHANNELS_LAST[op.operation].op(**op.attributes)
        if rank < LEAST_AXES or not self._takes(turned, [_aval(image), _aval(weight)]):
            return None
        (made,) = self._write(turned, (self._image(image), weight))
        self.found = True
        return self._seen(made)

    def _weight_gradient(
        self, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> tuple[LazyHandle, ...] | None:
        lying = [self._lies_so(x) for x in inputs]
        known = [h.number in self._copied for h in inputs if isinstance(h, LazyHandle)]
        if all(lying) or not any((*lying, *known)):
            return None
        return self._write(op, [self._image(x) for x in inputs])

    def _elementwise(
        self, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> tuple[LazyHandle, ...] | None:
        (out,) = infer(op, [_aval(x) for x in inputs])
        if not self._pays([x for x in inputs if x.shape == out.shape]):
            return None
        rank = len(out.shape)
        return self._seen(*self._write(op, [self._operand(x, rank) for x in inputs]))

    def _join(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...] | None:
        if not self._pays(inputs):
            return None
        rank = len(inputs[0].shape)
        turned = op.operation.op(
            **{**op.attributes, "axis": to_last(rank).index(op.attributes["axis"] % rank)}
        )
        return self._seen(*self._write(turned, [self._operand(x, rank) for x in inputs]))

    def _dependence(
        self, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> tuple[LazyHandle, ...] | None:
        x, after = inputs
        if not self._lies_so(x):
            return None
        return self._seen(*self._write(op, (self._last(x), after)))

    def _reduction(self, op: Op, x: Handle | Scalar) -> tuple[LazyHandle, ...] | None:
        rank, order = len(x.shape), to_last(len(x.shape))
        axis = op.attributes["axis"]
        places = reduction_of(op) in ("argmax", "argmin") and axis is None
        if not self._lies_so(x) or places:  # which count along the order of axes
            return None
        folded = folded_axes(op, rank)
        axes = tuple([place for place, a in enumerate(order) if a in folded])
        turned = {**op.attributes, "axis": axis if axis is None else axes}
        if isinstance(axis, int):
            (turned["axis"],) = axes
        (made,) = self._write(op.operation.op(**turned), (self._last(x),))
        if op.attributes.get("keepdims"):
            return self._seen(made) if made.shape else (made,)
        kept = [a for a in order if a not in folded]
        back = tuple(sorted(range(len(kept)), key=kept.__getitem__))
        if back == tuple(range(len(back))):
            return (made,)
        return self._write(PERMUTE_DIMS.op(axes=back), (made,))

    def _pays(self, operands: Sequence[Handle | Scalar]) -> bool:
        """Whether as many operands are such views as lie otherwise and in no other way."""
        numbers = [x.number for x in operands if isinstance(x, LazyHandle)]
        ours = sum(n in self._views for n in numbers)
        either = sum(
            n in self._turned or n in self._copied or n in self._repeated
            for n in numbers if n not in self._views
        )  # fmt: skip
        return 0 < ours >= len(numbers) - ours - either

    def _lies_so(self, x: Handle | Scalar) -> bool:
        return isinstance(x, LazyHandle) and (x.number in self._views or x.number in self._turned)

    def _operand(self, x: Handle | Scalar, rank: int) -> Handle | Scalar:
        """An operand that is repeated along axes, or is not, with the channels last."""
        if isinstance(x, Scalar) or not x.shape:
            return x
        if len(x.shape) < rank:
            shape = (*(1,) * (rank - len(x.shape)), *x.shape)
            (x,) = self._write(OPERATIONS["reshape"].op(shape=shape), (x,))
        known = self._known(x)
        return self._turn(x) if known is None else known

    def _image(self, x: Handle | Scalar) -> Handle | Scalar:
        """An image, or a view of a copy, that lies with the channels last."""
        if self._lies_so(x):
            return x
        (seen,) = self._write(PERMUTE_DIMS.op(axes=from_last(len(x.shape))), (self._last(x),))
        return seen

    def _last(self, x: Handle | Scalar) -> LazyHandle:
        """An image with the channels as its last axis, in memory, too."""
        known = self._known(x)
        if known is not None:
            return known
        cast = self._casts.get(x.number) if isinstance(x, LazyHandle) else None
        if cast is not None:
            op, before = cast
            (made,) = self._write(op, (self._turn(before),))
        else:  # what no strides say is copied
            turned = self._turn(x)
            (flat,) = self._write(OPERATIONS["reshape"].op(shape=(math.prod(x.shape),)), (turned,))
            (made,) = self._write(OPERATIONS["reshape"].op(shape=turned.shape), (flat,))
        if isinstance(x, LazyHandle):
            self._copied[x.number] = made
        return made

    def _known(self, x: Handle | Scalar) -> LazyHandle | None:
        if not isinstance(x, LazyHandle):
            return None
        for known in (self._views, self._turned, self._copied):
            if x.number in known:
                return known[x.number]
        return None

    def _turn(self, x: Handle | Scalar) -> LazyHandle:
        (turned,) = self._write(PERMUTE_DIMS.op(axes=to_last(len(x.shape))), (x,))
        return turned

    def _seen(self, made: LazyHandle) -> tuple[LazyHandle, ...]:
        """A result with the axes as they are called."""
        (view,) = self._write(PERMUTE_DIMS.op(axes=from_last(len(made.shape))), (made,))
        self._views[view.number] = made
        return (view,)


def _aval(x: Handle | Scalar) -> Aval:
    return Aval(x.shape, x.dtype)

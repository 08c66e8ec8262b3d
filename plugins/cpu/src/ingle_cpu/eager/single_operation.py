"""Single operations: what the backend runs when it is asked for one at a time.

An operation alone gives the bits that it gives inside a plan. So it runs as a plan of its own,
except where NumPy cannot differ: operations that round once at most, on few elements, where
NumPy's call is the faster one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ingle.fusion.device import (
    Chunk,
    Fusion,
    GraphPlans,
    Legality,
    forget_at_registrations,
    has_pieces,
    loop_by_pieces,
)
from ingle.fusion.device.kernels import HALVES
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.late_imports import late
from ingle.tensor.operation import Op, infer
from ingle_numpy.kernels.movement import slice_of

from .any_size import OperationCalls, alone, form_of
from .looped_operation import LoopedOperation
from .numpy_call import ArithmeticCall, MovementCall
from .planned_operation import PlannedOperation
from .view_call import ViewCall

if TYPE_CHECKING:
    from .any_shape import AnyShapeCall

FEW = 4096
"""Elements up to which NumPy's call is the faster one."""
MANY = 1 << 16
"""Elements up to which NumPy's gathers and scatters are taken: where each call has another shape,
its plan would take longer than that."""
SIZED = frozenset({"one_hot", "ravel_index"})
"""Operations on whole numbers whose kernels hold sizes as constants: for tensors of many sizes,
each seen once, compiling would take longer than anything else."""
SHAPES = 4
"""So many shapes of an elementwise operation have plans of their own."""
MOST_DRAWN = 1 << 20
"""Random numbers up to which more of them may be drawn than are wanted: a plan for their shape
would take longer."""
LASTING = 16
"""So many shapes of any operation have plans that are made to come again."""
MOST_CHUNKS = 64
"""Plans of some steps of a loop that are kept."""
MOST = 2048
"""Operations on certain shapes whose plans are kept: some ten kilobytes each."""

Run = Callable[[Op, Sequence[Handle | Scalar]], Sequence[Handle]]
Ready = Callable[[Op, Sequence[Handle | Scalar]], Sequence[Handle] | None]
"""A call that does not take all operands, or is not the one to take any more."""


class SingleOperations:
    """How each operation runs by itself, found once for its operands.

    Args:
        device: the backend.
        fusion: the decorator over it.
        native: runs an operation with NumPy's kernels.
    """

    def __init__(self, device: Any, fusion: Fusion, native: Run) -> None:
        self._device = device
        self._fusion = fusion
        self._native = native
        self._legality = Legality(device)
        self._known: dict[Any, Run] = {}
        self._any_shape: dict[Any, tuple[int, AnyShapeCall | None]] = {}
        self._forms: dict[Any, tuple[int, tuple[int, ...] | None]] = {}
        self._kernels: dict[Any, AnyShapeCall | None] = {}
        self._sized: dict[Any, OperationCalls] = {}
        self._chunks: dict[Any, Chunk] = {}
        self._lengths: dict[Any, int] = {}
        self._drawn_shapes: dict[Any, int] = {}
        forget_at_registrations(self)

    def forget(self) -> None:
        """Chooses anew for every operation."""
        self._known.clear()
        self._any_shape.clear()
        self._kernels.clear()
        self._forms.clear()
        self._sized.clear()
        self._chunks.clear()
        self._lengths.clear()

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs one operation."""
        key = _key(op, inputs)
        found = self._known.get(key)
        if found is None:
            if len(self._known) > MOST:
                self.forget()
            found = self._known[key] = self._choose(op, inputs)
        try:
            return tuple(found(op, inputs))
        except OutOfRangeError:
            # A kernel knows that an index is wrong, NumPy's also says which one.
            self._native(op, inputs)
            raise

    def ready(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Ready | None:
        """What runs an operation on such operands, with nothing looked up and whatever is around
        it; None where that is not known by now, or not so: a body may create tensors."""
        found = self._known.get(_key(op, inputs))
        if type(found) is PlannedOperation:
            return found.ready
        if type(found) is ArithmeticCall:
            return found.a_while if found.left > 0 else self._compiled(op, inputs, found)
        if type(found) is MovementCall or type(found) is ViewCall:
            return found
        return found if op.operation.body is None else None

    def _compiled(
        self, op: Op, inputs: Sequence[Handle | Scalar], by_numpy: ArithmeticCall
    ) -> Ready:
        """A kernel of our own for what NumPy has computed often; NumPy's where shapes differ."""
        shapes = {x.shape for x in inputs if type(x) is not Scalar}
        if op.operation.traits.kind != "elementwise" or shapes != {by_numpy.result.shape}:
            return by_numpy
        form = _form(op, inputs)
        if form not in self._kernels:
            make = late("ingle_cpu.eager.any_shape").any_shape_call
            known = self._legality.answer(op, [Aval(x.shape, x.dtype) for x in inputs])
            made = None if known.way == "other" else make(self._device, self._fusion, op, inputs)
            self._kernels[form] = made
        kernel = self._kernels[form]
        found = None if kernel is None else kernel.direct(by_numpy.result.shape)
        return by_numpy if found is None else found

    def _choose(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Run:
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        operation, traits = op.operation, op.operation.traits
        size = max((math.prod(a.shape) for a in avals), default=0)
        if self._device.has_custom_kernel(op, avals) or self._device.takes_whole(op, avals):
            return self._device.execute_native  # type: ignore[no-any-return]
        if traits.family == "movement":
            return self._viewed(op, inputs)
        if traits.inlined:
            return self._native
        if operation.name in SIZED or traits.access == "update":
            return self._in_order
        moves = traits.kind == "movement" and not traits.family and operation.body is not None
        if (traits.family == "gather" or moves) and _taken(op, avals) <= MANY:
            return self._moved(op, inputs) if moves else self._in_order
        if traits.access == "scatter" and size <= MANY:
            return self._in_order
        # What is made of numbers, or of rows and columns, is more than what goes in.
        if traits.kind == "random":
            return self._drawn(op, avals, inputs)
        if traits.exactly_rounded and max(size, _made(op, avals)) <= FEW:
            return self._by_numpy(op, inputs)
        if traits.dynamic_shape or any(0 in a.shape for a in avals):
            return self._native
        is_loop = operation.loop is not None and not any(a.dtype.name in HALVES for a in avals)
        if is_loop and (self._varies_in_length(op) or has_pieces(op)):
            return self._by_turns(op, avals, inputs)
        known = self._legality.answer(op, avals).way != "other"
        if not known and operation.body is None:
            return self._of_rows if traits.family == "matmul" else self._in_order
        same = len({_long(x.shape) for x in inputs if type(x) is not Scalar})
        if traits.kind == "elementwise" and same == 1:
            return self._for_all_shapes(op, avals, inputs)
        return self._for_all_sizes(op, avals, inputs)

    def _varies_in_length(self, op: Op) -> bool:
        """Whether a loop has come with another number of steps: a plan that writes them all out
        would be made for each."""
        assert op.operation.loop is not None
        loop = op.operation.loop(op)
        known = self._lengths.setdefault(loop.of_length(1), loop.length)
        return 0 < loop.length != known

    def _by_turns(self, op: Op, avals: Sequence[Aval], inputs: Sequence[Handle | Scalar]) -> Run:
        """How a loop runs that a plan would write out step by step."""
        while len(self._chunks) > MOST_CHUNKS:
            del self._chunks[next(iter(self._chunks))]
        plan = loop_by_pieces(self._device, self._fusion, op, avals, self._chunks)
        return LoopedOperation(plan, partial(self._for_all_sizes, op, avals, inputs))

    def _for_all_shapes(
        self, op: Op, avals: Sequence[Aval], inputs: Sequence[Handle | Scalar]
    ) -> Run:
        """How an elementwise operation runs: once it has come with many shapes, not by plans."""
        numbers = [type(x) is Scalar for x in inputs]
        key = _form(op, inputs)
        count, call = self._any_shape.get(key, (0, None))
        if count < SHAPES:
            self._any_shape[key] = count + 1, None
            return self._plan(op, avals, numbers)
        if count == SHAPES:
            any_shape = late("ingle_cpu.eager.any_shape")
            call = any_shape.any_shape_call(self._device, self._fusion, op, inputs)
            self._any_shape[key] = count + 1, call
        if call is None:
            return self._for_all_sizes(op, avals, inputs)
        return self._or_by_plan(call, op, avals, numbers)

    def _drawn(self, op: Op, avals: Sequence[Aval], inputs: Sequence[Handle | Scalar]) -> Run:
        """How random numbers are drawn: once they came in many shapes, as the first of a few
        numbers of them, since each follows from its place alone."""
        ((shape, dtype),) = infer(op, avals)
        count, attributes = math.prod(shape), op.attributes
        form = (op.operation, dtype)
        shapes = self._drawn_shapes[form] = self._drawn_shapes.get(form, 0) + 1
        if shapes <= SHAPES or not 0 < count <= MOST_DRAWN or attributes.get("shape") != shape:
            return self._for_all_sizes(op, avals, inputs)
        larger = op.operation.op(**{**attributes, "shape": (_rounded(count),)})
        if larger.attributes == attributes:
            return self._for_all_sizes(op, avals, inputs)
        device, aval = self._device, Aval(shape, dtype)
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]

        def run(op: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle]:
            (drawn,) = self.run(larger, inputs)
            return [device.viewed(drawn, aval, strides, 0)]

        return run

    def _for_all_sizes(
        self, op: Op, avals: Sequence[Aval], inputs: Sequence[Handle | Scalar]
    ) -> Run:
        """How an operation runs: once it has come with a few sizes, not by plans for each."""
        numbers = [type(x) is Scalar for x in inputs]
        form = form_of(op, inputs)
        calls = self._sized.get(form)
        if calls is None:
            calls = self._sized[form] = OperationCalls(self._device, self._fusion)
        sized = calls.operation()
        if sized is None:
            return self._plan(op, avals, numbers, calls)
        return self._or_by_plan(sized, op, avals, numbers, calls)

    def _or_by_plan(
        self, call: Callable[[Op, Sequence[Handle | Scalar]], list[Handle] | None], op: Op,
        avals: Sequence[Aval], numbers: Sequence[bool], calls: OperationCalls | None = None,
    ) -> Run:  # fmt: skip
        """A call, or a plan where the operands are such that the call does not serve them."""
        plan: Run | None = None

        def run(op: Op, inputs: Sequence[Handle | Scalar]) -> Sequence[Handle]:
            nonlocal plan
            found = call(op, inputs)
            if found is not None:
                return found
            if plan is None:
                plan = self._plan(op, avals, numbers, calls)
            return plan(op, inputs)

        return run

    def _by_numpy(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Run:
        """NumPy's kernel and what is around it, without looking anything up."""
        _, kernel = self._device.resolve(op, inputs)
        (aval, *more) = infer(op, inputs)
        if kernel is None or more:
            return self._in_order
        return ArithmeticCall(self._device, kernel, aval)

    def _moved(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Run:
        """NumPy's kernel of an operation that moves elements."""
        _, kernel = self._device.resolve(op, inputs)
        usual = self._in_order
        return usual if kernel is None else MovementCall(self._device, kernel, usual)

    def _viewed(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Run:
        """NumPy's kernel of an operation that makes a view, or joins tensors."""
        _, kernel = self._device.resolve(op, inputs)
        if kernel is None:
            return self._native
        if op.operation.name == "concat" and len(inputs) > 1:
            return MovementCall(self._device, kernel, self._native)
        if op.operation.name == "slice":
            kernel = slice_of(op, inputs[0].shape)
        return ViewCall(self._device, kernel, self._native)

    def _in_order(self, op: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle]:
        """Runs NumPy's kernel; its results lie in memory as a plan would have them."""
        in_order = self._device.in_order
        return [
            h if h.array.flags.c_contiguous else in_order(h)  # type: ignore[attr-defined]
            for h in self._native(op, inputs)
        ]

    def _of_rows(self, op: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle]:
        """The same on operands in C order: the bits of BLAS depend on how they lie."""
        return self._in_order(op, [self._device.in_order(x) for x in inputs])

    def _plan(
        self, op: Op, avals: Sequence[Aval], numbers: Sequence[bool],
        calls: OperationCalls | None = None,
    ) -> Run:  # fmt: skip
        """A plan of an operation; `calls`, if given, shall know of its graph."""
        graph = alone(op, avals, numbers)
        # Which inputs a product reads follows from the operation, whatever sizes above 1 are.
        form = (op, *[(*[min(n, 2) for n in a.shape], a.dtype) for a in avals], *numbers)
        count, products = self._forms.get(form, (0, None))
        executable = GraphPlans(
            self._device, self._fusion, graph, passing=count >= LASTING, products=products
        )

        def note(executable: GraphPlans) -> None:
            self._forms[form] = count + 1, executable.products

        return PlannedOperation(self._device, op, graph, executable, note, calls)


def _key(op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Any, ...]:
    # Most have one or two operands, for which a key is written out.
    if len(inputs) == 2:
        a, b = inputs
        return (op, a.shape, a.dtype, type(a) is Scalar, b.shape, b.dtype, type(b) is Scalar)
    if len(inputs) == 1:
        (x,) = inputs
        return (op, x.shape, x.dtype, type(x) is Scalar)
    return (op, *[part for x in inputs for part in (x.shape, x.dtype, type(x) is Scalar)])


def _form(op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Any, ...]:
    return (op, *[(type(x) is Scalar, x.dtype) for x in inputs])


def _made(op: Op, avals: Sequence[Aval]) -> int:
    """How many elements the largest result has; none are known where values decide."""
    if op.operation.traits.dynamic_shape:
        return 0
    return max([math.prod(a.shape) for a in infer(op, avals)], default=0)


def _rounded(count: int) -> int:
    """The next number of four in each octave."""
    step = 1 << max(4, (count - 1).bit_length() - 3)
    return -(-count // step) * step


def _taken(op: Op, avals: Sequence[Aval]) -> int:
    """How many elements an operation moves, or asks for: of a table they may be few."""
    if op.operation.traits.dynamic_shape:
        return MANY + 1
    moved = [*infer(op, avals), *[a for a in avals if a.dtype.is_integer]]
    return max([math.prod(a.shape) for a in moved], default=0)


def _long(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its first axes of size 1, which move no element."""
    first = next((a for a, n in enumerate(shape) if n != 1), len(shape))
    return shape[first:]

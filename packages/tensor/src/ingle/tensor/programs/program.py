"""Programs: a computation in relative form, as a value.

Tensors are known by their number: first the inputs, then the results of each step in turn. A
program holds no tensors, so two that do the same are equal whatever they were traced from,
and a program can be an attribute of an operation: the body of a loop, a branch, a region.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from ..contract import Aval, Handle, Scalar
from ..device import Device, backend_of
from ..dispatch import Number, highest, show, watched, wrap
from ..operation import Op, infer, typed_key
from ..static_values import Static

if TYPE_CHECKING:
    from ..tensor import Tensor


class Step(NamedTuple):
    """One operation: numbers of tensors or scalars that it takes, and how many results it has.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import Aval, trace
    >>> steps = trace(lambda x: it.exp(x) + 1.0, [Aval((3,), it.float32)]).program.steps
    >>> [(step.op.operation.name, step.inputs, step.results) for step in steps]
    [('exp', (0,), 1), ('add', (1, Scalar(1.0, float32)), 1)]
    """

    op: Op
    inputs: tuple[int | Scalar, ...]
    results: int


class Program(Static):
    """A computation in relative form; see the module. Made by `Program.of`, which interns them.

    Attributes:
        avals: shape and dtype of each tensor, by number.
        arity: how many of them are inputs.
        steps: what is computed, in order.
        outputs: numbers of the tensors that a run returns.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import Aval, trace
    >>> program = trace(lambda x: it.exp(x) + 1.0, [Aval((3,), it.float32)]).program
    >>> program.arity, len(program.steps), program.outputs
    (1, 2, (2,))
    """

    __slots__ = (
        "__weakref__", "_dying", "_hash", "_key", "_unrolled", "arity", "avals", "outputs", "steps",
    )  # fmt: skip

    def __init__(
        self,
        avals: tuple[Aval, ...],
        arity: int,
        steps: tuple[Step, ...],
        outputs: tuple[int, ...],
        key: object,
    ) -> None:
        self.avals = avals
        self.arity = arity
        self.steps = steps
        self.outputs = outputs
        self._key = key
        self._hash = hash(key)
        self._dying = _last_uses(arity, steps, outputs)
        self._unrolled = any(is_unrolled(s.op) for s in steps)

    @staticmethod
    def of(inputs: Sequence[Aval], steps: Iterable[Step], outputs: Sequence[int]) -> Program:
        """The program of these steps; the same object while an equal one is alive."""
        kept = tuple(steps)
        content = tuple((s.op.key, tuple(map(_reference, s.inputs))) for s in kept)
        key = (tuple(inputs), content, tuple(outputs))
        found = _programs.get(key)
        if found is None:
            avals = list(inputs)
            for step in kept:
                avals += infer(
                    step.op, [x if isinstance(x, Scalar) else avals[x] for x in step.inputs]
                )
            found = Program(tuple(avals), len(inputs), kept, tuple(outputs), key)
            _programs[key] = found
        return found

    @property
    def inputs(self) -> tuple[Aval, ...]:
        """Shapes and dtypes of the inputs."""
        return self.avals[: self.arity]

    @property
    def results(self) -> tuple[Aval, ...]:
        """Shapes and dtypes of the outputs."""
        return tuple([self.avals[n] for n in self.outputs])

    def run(self, *inputs: Tensor | Number) -> tuple[Tensor, ...]:
        """Takes the steps, on whatever level the inputs are; values are dropped after their use.

        A number among the inputs is a weak scalar, of the dtype that the program has for it.
        """
        # Tensors and not handles: these enter themselves as holders of a buffer.
        values: list[Tensor | Scalar | None] = [
            Scalar(x, a.dtype) if isinstance(x, (bool, int, float, complex)) else x
            for x, a in zip(inputs, self.avals, strict=False)
        ]
        where = next((x.device for x in values if not isinstance(x, Scalar)), None)  # type: ignore[union-attr]
        planned = _planning(values) if len(self.steps) > 1 and not watched() else None
        if planned is not None:
            return tuple(map(wrap, planned(self, [_operand(x) for x in values])))
        for step, dying in zip(self.steps, self._dying, strict=True):
            operands = [x if isinstance(x, Scalar) else _operand(values[x]) for x in step.inputs]
            values += map(wrap, _execute(step.op, operands, where))
            for number in dying:
                values[number] = None
        return tuple([wrap(values[n]._handle) for n in self.outputs])  # type: ignore[union-attr]

    @property
    def unrolled(self) -> bool:
        """Whether some step has a gradient that is recorded by running it, where it has values."""
        return self._unrolled

    def reached(self, inputs: Sequence[bool]) -> tuple[bool, ...]:
        """Which outputs depend on inputs of which this is true."""
        reached = list(inputs)
        for step in self.steps:
            touched = any(reached[x] for x in step.inputs if not isinstance(x, Scalar))
            reached += [touched] * step.results
        return tuple([reached[n] for n in self.outputs])

    def taking(self, inputs: Sequence[Aval], places: Sequence[int]) -> Program:
        """The same computation on other inputs, where input `i` is found at `places[i]`."""
        shift = len(inputs) - self.arity

        def moved(x: int | Scalar) -> int | Scalar:
            if isinstance(x, Scalar):
                return x
            return places[x] if x < self.arity else x + shift

        steps = [Step(s.op, tuple(map(moved, s.inputs)), s.results) for s in self.steps]
        return Program.of(inputs, steps, [moved(n) for n in self.outputs])  # type: ignore[misc]

    def used(self) -> set[int]:
        """The numbers of all that a step takes or a run returns."""
        taken = {x for step in self.steps for x in step.inputs if not isinstance(x, Scalar)}
        return taken.union(self.outputs)

    def rebuilt(
        self, inputs: Sequence[Aval], known: Mapping[int, int], outputs: Sequence[int]
    ) -> Program:
        """What some of its tensors are computed by, and nothing else.

        Args:
            inputs: of the new program.
            known: of tensors that come as inputs there, which ones. Inputs that are needed are
                among them.
            outputs: numbers of the tensors that it returns.
        """
        firsts = [self.arity]
        for step in self.steps:
            firsts.append(firsts[-1] + step.results)
        needed = {n for n in outputs if n not in known}
        kept: list[int] = []
        for position in reversed(range(len(self.steps))):
            step = self.steps[position]
            if not needed.isdisjoint(range(firsts[position], firsts[position + 1])):
                kept.append(position)
                inner = [x for x in step.inputs if not isinstance(x, Scalar)]
                needed.update([x for x in inner if x not in known])
        made: dict[int, int] = {}

        def place(x: int) -> int:
            return known[x] if x in known else made[x]

        steps: list[Step] = []
        number = len(inputs)
        for position in reversed(kept):
            op, taken, results = self.steps[position]
            moved = tuple([x if isinstance(x, Scalar) else place(x) for x in taken])
            steps.append(Step(op, moved, results))
            made.update({firsts[position] + i: number + i for i in range(results)})
            number += results
        return Program.of(inputs, steps, [place(n) for n in outputs])

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Program) and self._key == other._key)

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(s.op.operation.name for s in self.steps))
        return f"<program of {len(self.steps)} steps: {names}>"

    def __str__(self) -> str:
        lines = [f"%{n}: {aval}" for n, aval in enumerate(self.inputs)]
        number = self.arity
        for step in self.steps:
            left = ", ".join(
                f"%{number + k}: {self.avals[number + k]}" for k in range(step.results)
            )
            right = ", ".join(
                repr(x.value) if isinstance(x, Scalar) else f"%{x}" for x in step.inputs
            )
            lines.append(f"{left} = {step.op!r} of {right}")
            number += step.results
        return "\n".join([*lines, "return " + ", ".join(f"%{n}" for n in self.outputs)])


_programs: WeakValueDictionary[object, Program] = WeakValueDictionary()


def is_unrolled(op: Op) -> bool:
    """Whether gradients of an operation, or of a program that it carries, are recorded so.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.programs import Aval, is_unrolled, trace
    >>> steps = trace(it.exp, [Aval((3,), it.float32)]).program.steps
    >>> [is_unrolled(step.op) for step in steps]
    [False]
    """
    carried = [v for v in op.attributes.values() if isinstance(v, Program)]
    return op.operation.traits.unrolled or any(p.unrolled for p in carried)


def _reference(x: int | Scalar) -> object:
    return (typed_key(x.value), x.dtype) if isinstance(x, Scalar) else x


def _planning(values: Sequence[Any]) -> Any:
    """What runs whole programs on the backend of some operands, if it does that."""
    found = {x._handle.backend for x in values if not isinstance(x, Scalar)}
    return getattr(found.pop(), "run_program", None) if len(found) == 1 else None


def _operand(x: Any) -> Handle | Scalar:
    handle: Handle | Scalar = x if isinstance(x, Scalar) else x._handle
    return handle


def _execute(
    op: Op, operands: Sequence[Handle | Scalar], where: Device | None
) -> tuple[Handle, ...]:
    backend = None
    for x in operands:
        found = x.backend
        if found is not None and found is not backend:
            if backend is not None:
                backend = highest(op, operands)
                break
            backend = found
    outputs = (backend_of(where) if backend is None else backend).execute(op, operands)
    if watched():
        show(op, operands, outputs)
    return outputs


def _last_uses(
    arity: int, steps: Sequence[Step], outputs: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """For each step the tensors that nobody needs after it."""
    kept = set(outputs)
    dying: list[tuple[int, ...]] = []
    firsts = [arity]
    for step in steps:
        firsts.append(firsts[-1] + step.results)
    for position in reversed(range(len(steps))):
        made = range(firsts[position], firsts[position + 1])
        used = [x for x in steps[position].inputs if not isinstance(x, Scalar)]
        last = [n for n in dict.fromkeys((*used, *made)) if n not in kept]
        kept.update(last)
        dying.append(tuple(last))
    return tuple(reversed(dying))

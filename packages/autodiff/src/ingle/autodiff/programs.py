"""Programs under transforms: a program's derivative as two programs, and a program of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingle.tensor import Tensor
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import Device
from ingle.tensor.programs import Program, TracedHandle, Tracer, tracing

from .products import jvp, vjp
from .residuals import KEEP_ALL, kept_by
from .vectorization import vmap

_LIMIT = 1024


@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    """A program's derivative by some of its inputs.

    Attributes:
        forward: the program with more outputs: what `backward` needs and is no input. Its inputs
            have `constants` appended.
        backward: from cotangents of the `active` outputs, and what it needs, to those of the
            `wanted` inputs.
        wanted, active: places among the inputs and outputs of the program.
        sources: for each value that `backward` needs its place among the inputs of `forward`,
            followed by the outputs of `forward`.
        constants: tensors that the gradient rules made of host data.
    """

    forward: Program
    backward: Program
    wanted: tuple[int, ...]
    active: tuple[int, ...]
    sources: tuple[int, ...]
    constants: tuple[Handle | Scalar, ...]


_linear: dict[Any, LinearProgram] = {}


def linear_program(program: Program, needs: tuple[bool, ...], device: Device) -> LinearProgram:
    """The derivative of a program by those of its inputs that need it.

    The program is recorded on tensors without values; pulling cotangents back through it, which
    have no values either, is then a program of its own, and what it closes over is what the
    forward one has to keep: just what the gradient rules ask for.
    """
    key = (program, needs, device)
    found = _linear.get(key)
    if found is None:
        with kept_by(KEEP_ALL), tracing(device, making=True) as front:
            found = _derived(program, needs, device, front)
        if not found.constants:
            if len(_linear) >= _LIMIT:
                _linear.clear()
            _linear[key] = found
    return found


def _derived(
    program: Program, needs: tuple[bool, ...], device: Device, front: Tracer
) -> LinearProgram:
    inputs = [front.input(a) for a in program.inputs]
    pairs = zip(program.inputs, needs, strict=True)
    wanted = tuple([i for i, (a, need) in enumerate(pairs) if need and a.dtype.is_inexact])
    reached = program.reached([i in wanted for i in range(program.arity)])
    results = program.results
    active = tuple([i for i, r in enumerate(reached) if r and results[i].dtype.is_inexact])

    def of_wanted(*some: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(wanted, some, strict=True))
        return program.run(*[given.get(i, x) for i, x in enumerate(inputs)])

    outputs, pull = vjp(of_wanted, *[inputs[i] for i in wanted])
    with tracing(device, making=True) as back:
        # What concerns values of the forward pass alone is computed backward all the same, so
        # that what is kept is what the rules ask for.
        front.redirect = back
        given = {i: back.input(results[i]) for i in active}
        cotangents = pull(tuple([given.get(i) for i in range(len(outputs))]))
        front.redirect = None
        backward, needed = back.program(cotangents)
    return connected(front, list(outputs), backward, needed, wanted, active, program.arity)


def connected(
    front: Tracer,
    outputs: list[Tensor],
    backward: Program,
    needed: Sequence[Handle | Scalar],
    wanted: tuple[int, ...],
    active: tuple[int, ...],
    arity: int,
    *,
    apart: bool = False,
) -> LinearProgram:
    """The forward program with what the backward one needs, and where that finds it.

    With `apart` that is no output of the function, even where it is the same value.
    """
    made = {
        h.number: Tensor(h)
        for h in needed
        if isinstance(h, TracedHandle) and h.backend is front and h.number >= arity
    }
    given = [h for h in needed if front.number(h) not in made]
    known = [] if apart else [front.number(x._handle) for x in outputs]
    more = [x for number, x in made.items() if number not in known]
    forward, constants = front.program([*outputs, *more], kept=given)
    place = {front.number(h): arity + i for i, h in enumerate(constants)}
    place |= {number: forward.arity + i for i, number in reversed([*enumerate(known)])}
    place |= {front.number(x._handle): forward.arity + len(outputs) + i for i, x in enumerate(more)}
    place |= {i: i for i in range(arity)}
    sources = tuple([place[front.number(h)] for h in needed])
    return LinearProgram(forward, backward, wanted, active, sources, tuple(constants))


def pushed_program(
    program: Program, wanted: tuple[int, ...], device: Device
) -> tuple[Program, tuple[Handle | Scalar, ...]]:
    """The program that also takes tangents of the wanted inputs, and what to append to its inputs.

    It returns the outputs, then the tangents of those that are inexact and depend on them.
    """
    reached = program.reached([i in wanted for i in range(program.arity)])
    with kept_by(KEEP_ALL), tracing(device, making=True) as tracer:
        inputs = [tracer.input(a) for a in program.inputs]
        tangents = [tracer.input(program.inputs[i]) for i in wanted]

        def of_wanted(*some: Tensor) -> tuple[Tensor, ...]:
            given = dict(zip(wanted, some, strict=True))
            return program.run(*[given.get(i, x) for i, x in enumerate(inputs)])

        values, pushed = jvp(of_wanted, tuple([inputs[i] for i in wanted]), tuple(tangents))
        moving = [t for t, r in zip(pushed, reached, strict=True) if r and t.dtype.is_inexact]
        whole, constants = tracer.program([*values, *moving])
    return whole, tuple(constants)


def batched_program(
    program: Program, flags: tuple[bool, ...], size: int, device: Device
) -> tuple[Program, tuple[Handle | Scalar, ...]]:
    """The program for a batch of the flagged inputs, and what to append to its inputs.

    The batch is the first axis of those inputs and of the outputs that depend on them.
    """
    axes = tuple([0 if flag else None for flag in flags])
    ends = tuple([0 if flag else None for flag in program.reached(flags)])
    with tracing(device, making=True) as tracer:
        inputs = [
            tracer.input(Aval((size, *a.shape), a.dtype) if flag else a)
            for a, flag in zip(program.inputs, flags, strict=True)
        ]
        outputs = vmap(program.run, in_axes=axes, out_axes=ends)(*inputs)
        whole, constants = tracer.program(outputs)
    return whole, tuple(constants)

"""Programs: lists of calls of public functions on earlier values, unlike what samples have.

A program runs on any device and in any way of executing (plain, recorded, compiled), and in float64
on the reference, which says how far off each of the others is. It prints as code that one can
paste. `program_generator` draws random ones, `error_bounds` says whether a run of one is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.tensor import Tensor
from ingle.tensor.dtypes import as_dtype

Array: TypeAlias = "np.ndarray[Any, Any]"
Results: TypeAlias = "list[Array]"


@dataclass(frozen=True, slots=True)
class Input:
    """Random numbers: floats in [-2, 2], integers in [-9, 9], or either of two booleans.

    Attributes:
        scale: by how much of each number's size it is off, at random.
        noise: the seed of that.
    """

    shape: tuple[int, ...]
    dtype: str
    seed: tuple[int, int]
    scale: float = 0.0
    noise: int = 0

    def array(self) -> Array:
        """The numbers."""
        rng, dtype = np.random.default_rng(self.seed), as_dtype(self.dtype)
        if not dtype.is_floating:
            low, high = (0, 2) if self.dtype == "bool" else (-9, 10)
            return rng.integers(low, high, self.shape).astype(dtype.dtype)
        values = rng.uniform(-2, 2, self.shape)
        if self.scale:
            off = np.random.default_rng((*self.seed, self.noise)).uniform(-1, 1, self.shape)
            values = values * (1 + self.scale * off)
        return np.asarray(values.astype(dtype.dtype))

    def __str__(self) -> str:
        rng = f"np.random.default_rng({self.seed})"
        if as_dtype(self.dtype).is_floating:
            drawn = f"{rng}.uniform(-2, 2, {self.shape})"
        else:
            drawn = f"{rng}.integers({'0, 2' if self.dtype == 'bool' else '-9, 10'}, {self.shape})"
        return f"it.asarray({drawn}).astype({self.dtype!r})"


@dataclass(frozen=True, slots=True)
class World:
    """What a program finds around it, and changes.

    Attributes:
        cells: of tensors.
        count: a cell of a Python number.
        generator: of random numbers.
        number: a Python number that differs from run to run.
        noise: by how much of its size each value is off wherever it is used, at random.
        rng: of that.
    """

    cells: tuple[it.Cell[Tensor], ...]
    count: it.Cell[int] = field(default_factory=lambda: it.Cell(0))
    generator: it.random.Generator = field(default_factory=lambda: it.random.Generator(7))
    number: float = 0.5
    noise: float = 0.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def seen(self, value: Tensor) -> Tensor:
        """A value as one use of it sees it."""
        if not self.noise or not value.dtype.is_floating:
            return value
        off = self.rng.uniform(-self.noise, self.noise, value.shape)
        return value * it.asarray(1 + off, dtype=value.dtype)


@dataclass(frozen=True, slots=True)
class Call:
    """One step: a function of the world and earlier values.

    Attributes:
        text: the call as Python, with `{0}`, `{1}` … for its arguments; with `{out}` a statement.
        function: what it does.
        args: numbers of earlier values.
    """

    text: str
    function: Callable[..., Tensor]
    args: tuple[int, ...]

    def line(self, out: int) -> str:
        """The statement that makes a value."""
        text = self.text if "{out}" in self.text else "{out} = " + self.text
        return text.format(*[f"v{a}" for a in self.args], out=f"v{out}")


@dataclass(frozen=True, slots=True)
class Program:
    """Inputs, calls, and which values come out.

    Attributes:
        inputs: values 0, 1, ….
        cells: what its cells hold at first.
        calls: each makes the next value.
        outputs: numbers of values.
        gradient: whether it is about the gradient of a scalar of its outputs.
    """

    inputs: tuple[Input, ...]
    cells: tuple[Input, ...]
    calls: tuple[Call, ...]
    outputs: tuple[int, ...]
    gradient: bool = False

    def run(self, inputs: Sequence[Tensor], world: World) -> tuple[Tensor, ...]:
        """The outputs for inputs of the same shapes."""
        values = list(inputs)
        for call in self.calls:
            values.append(call.function(world, *[world.seen(values[a]) for a in call.args]))
        return tuple([world.seen(values[o]) for o in self.outputs])

    def step(self, inputs: Sequence[Tensor], world: World) -> tuple[Tensor, ...]:
        """What is judged: the outputs, or a scalar of them and its gradients."""
        if not self.gradient:
            return self.run(inputs, world)
        places = tuple(range(len(inputs)))
        value, gradients = value_and_grad(
            lambda *xs: scalar_of(self.run(xs, world)), argnums=places
        )(*inputs)
        return (value, *gradients)

    def __str__(self) -> str:
        lines = [f"v{i} = {x}" for i, x in enumerate(self.inputs)]
        lines += [f"c{i} = it.Cell({x})" for i, x in enumerate(self.cells)]
        lines += ["count, generator, number = it.Cell(0), it.random.Generator(7), 0.5", ""]
        lines.append(f"def program(number, {', '.join(f'v{i}' for i in range(len(self.inputs)))}):")
        for i, call in enumerate(self.calls, len(self.inputs)):
            lines += ["    " + part for part in call.line(i).split("\n")]
        lines.append("    return " + ", ".join(f"v{o}" for o in self.outputs) + ",")
        if self.gradient:
            lines += ["", "# the gradient of ingle.testkit.programs.scalar_of(program(...))"]
        return "\n".join(lines)

    def only(self, outputs: Sequence[int]) -> Program:
        """What these outputs need, and nothing else."""
        needed = set(outputs)
        first = len(self.inputs)
        for i in range(len(self.calls) - 1, -1, -1):
            if first + i in needed:
                needed.update(self.calls[i].args)
        place: dict[int, int] = {}
        inputs = [x for i, x in enumerate(self.inputs) if i in needed]
        for i in sorted(needed):
            place[i] = len(place)
        calls = [
            replace(call, args=tuple([place[a] for a in call.args]))
            for i, call in enumerate(self.calls, first)
            if i in needed
        ]
        return replace(
            self,
            inputs=tuple(inputs),
            calls=tuple(calls),
            outputs=tuple([place[o] for o in outputs]),
        )

    def cut(self, value: int, put: Input) -> Program:
        """The program with an input in place of a value that a call makes."""
        first = len(self.inputs)

        def moved(v: int) -> int:
            return first if v == value else v + 1 if first <= v < value else v

        calls = [
            replace(call, args=tuple([moved(a) for a in call.args]))
            for i, call in enumerate(self.calls, first)
            if i != value
        ]
        outputs = tuple([moved(o) for o in self.outputs])
        made = replace(self, inputs=(*self.inputs, put), calls=tuple(calls), outputs=outputs)
        return made.only(outputs)


def scalar_of(outputs: Sequence[Tensor]) -> Tensor:
    """A sum of outputs with weights that every dtype holds exactly."""
    total: Any = 0.0
    for output in outputs:
        weights = (it.arange(output.size) % 7 - 3).astype(output.dtype) * 0.25
        total = total + it.sum(output * it.reshape(weights, output.shape))
    return total  # type: ignore[no-any-return]


def execute(
    program: Program,
    device: str,
    way: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda f: f,
    *,
    times: int = 1,
    exact: bool = False,
    noise: float = 0.0,
    seed: int = 0,
) -> Results:
    """The outputs of some runs in a row, then what the cells hold.

    Args:
        program: what to run.
        device: where.
        way: of executing, such as `ingle.fusion.compile`.
        times: how often; what the cells and the generator hold goes on from run to run.
        exact: with float64 in place of each float dtype.
        noise: see `World`.
        seed: of the noise.
    """

    def tensor(given: Input) -> Tensor:
        array = given.array()
        return it.asarray(
            array.astype(np.float64) if exact and array.dtype.kind not in "iub" else array
        )

    with it.device(device):
        inputs = [tensor(x) for x in program.inputs]
        cells = tuple([it.Cell(tensor(x)) for x in program.cells])
        world = World(cells, noise=noise, rng=np.random.default_rng(seed))
        step = way(lambda number, *xs: program.step(xs, replace(world, number=number)))
        found = []
        for run in range(times):
            found += [v.numpy() for v in step(0.5 + run / 4, *inputs)]
        return [*found, *[c.value.numpy() for c in world.cells]]

"""Random programs: elementwise work, views, reductions, products, state, dead ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dtypes import as_dtype

from .program_pieces import piece_step
from .programs import Call, Input, Program, World

SIZES = (1, 2, 3, 5, 8, 17, 33)
MOST_ELEMENTS, MOST_AXES = 20000, 5


def random_program(
    seed: int, *, dtype: str = "float32", calls: tuple[int, int] = (5, 60), gradient: bool = False,
    pieces: bool = False,
) -> Program:  # fmt: skip
    """The program of a seed.

    What it computes of floats is continuous: no rounding error is made large by a comparison that
    it tips.

    Args:
        seed: which program.
        dtype: of its inputs; integers and floats get operations of their own.
        calls: how many at least, and fewer than how many.
        gradient: whether the program is about its gradient.
        pieces: whether a third of it puts values together from pieces and writes into parts of
            them: concat, pad, roll, slices at computed places, scatters.
    """
    return _Writer(seed, dtype, pieces).write(calls, gradient)


class _Writer:
    """Draws one program, running it on the reference as it grows to know the shapes."""

    def __init__(self, seed: int, dtype: str, pieces: bool) -> None:
        self._seed = seed
        self._pieces = pieces
        self._rng = np.random.default_rng(seed)
        self._dtype = dtype
        self._floats = as_dtype(dtype).is_floating
        self._values: list[Tensor] = []
        self._calls: list[Call] = []
        self._cells: list[Input] = []
        self._world = World(())

    def write(self, calls: tuple[int, int], gradient: bool) -> Program:
        """The program."""
        rng = self._rng
        rank = int(rng.integers(1, 4))
        shape = tuple(int(rng.choice(SIZES)) for _ in range(rank))
        shapes = [shape]
        for _ in range(int(rng.integers(0, 3))):
            part = shape[int(rng.integers(0, rank)) :]
            shapes.append(tuple([n if rng.random() < 0.8 else 1 for n in part]))
        inputs = [Input(s, self._dtype, (self._seed, i)) for i, s in enumerate(shapes)]
        kinds = _FLOAT_STEPS if self._floats else _INTEGER_STEPS
        with it.device("numpy"), np.errstate(all="ignore"):
            self._values = [it.asarray(x.array()) for x in inputs]
            for _ in range(int(rng.integers(*calls))):
                if self._pieces and rng.random() < 0.3:
                    self._piece(self._pick())
                    continue
                kind = rng.choice(list(kinds), p=list(kinds.values()))
                getattr(self, f"_{kind}")(self._pick())
        count = len(self._values)
        drawn = [int(rng.integers(0, count)) for _ in range(int(rng.integers(0, 4)))]
        outputs = tuple(sorted({count - 1, *drawn}))
        return Program(tuple(inputs), tuple(self._cells), tuple(self._calls), outputs, gradient)

    def _pick(self) -> int:
        """A value; late ones are likelier."""
        count = len(self._values)
        return count - 1 - int(min(self._rng.exponential(count / 4), count - 1))

    def _add(self, text: str, function: Callable[..., Tensor], *args: int) -> None:
        """Appends a call of a function of values alone."""
        self._act(text, lambda world, *values: function(*values), *args)

    def _act(self, text: str, function: Callable[..., Tensor], *args: int) -> None:
        """Appends a call of a function of the world and values."""
        value = function(self._world, *[self._values[a] for a in args])
        if value.size > MOST_ELEMENTS or value.ndim > MOST_AXES:
            return
        self._values.append(value)
        self._calls.append(Call(text, function, args))

    def _one_of(self, table: list[Any]) -> Any:
        return table[int(self._rng.integers(len(table)))]

    def _unary(self, x: int) -> None:
        self._add(*self._one_of(_UNARY if self._floats else _INTEGER_UNARY), x)

    def _partner(self, x: int) -> int | None:
        """A value that broadcasts with another."""
        for _ in range(8):
            y = self._pick()
            try:
                np.broadcast_shapes(self._values[x].shape, self._values[y].shape)
            except ValueError:
                continue
            return y
        return None

    def _binary(self, x: int) -> None:
        text, function = self._one_of(_BINARY if self._floats else _INTEGER_BINARY)
        y = self._partner(x)
        if y is not None and self._rng.random() < 0.8:
            self._add(text, function, x, y)
            return
        number = float(np.round(self._rng.uniform(-2, 2), 3))
        if not self._floats:
            number = int(self._rng.integers(1, 8))
        self._add(text.replace("{1}", repr(number)), lambda a: function(a, number), x)

    def _where(self, x: int) -> None:
        y, z = self._partner(x), self._partner(x)
        if y is None or z is None:
            return
        shapes = [self._values[v].shape for v in (x, y, z)]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            return
        if self._rng.random() < 0.4 or not shapes[1]:
            self._add("it.where({0} > {1}, {0}, {1})", lambda a, b: it.where(a > b, a, b), x, y)
            return
        size, period = shapes[1][-1], int(self._rng.integers(2, 5))
        self._add(
            f"it.where(it.arange({size}) % {period} == 0, {{0}}, {{1}})",
            lambda a, b: it.where(it.arange(size) % period == 0, a, b),
            y,
            z,
        )

    def _view(self, x: int) -> None:
        shape = self._values[x].shape
        kind = self._one_of(["reshape", "permute", "broadcast", "slice", "flip", "expand"])
        if not shape and kind not in ("broadcast", "expand", "reshape"):
            return
        text, function = getattr(self, f"_{kind}")(shape)
        self._add(text, function, x)

    def _permute(self, shape: tuple[int, ...]) -> Any:
        axes = tuple(int(a) for a in self._rng.permutation(len(shape)))
        return f"it.permute_dims({{0}}, {axes})", lambda a: it.permute_dims(a, axes)

    def _reshape(self, shape: tuple[int, ...]) -> Any:
        to = self._other_shape(int(np.prod(shape)))
        return f"it.reshape({{0}}, {to})", lambda a: it.reshape(a, to)

    def _broadcast(self, shape: tuple[int, ...]) -> Any:
        rng = self._rng
        wide = tuple([n if n > 1 else int(rng.choice(SIZES)) for n in shape])
        to = (int(rng.choice([2, 3])), *wide)
        return f"it.broadcast_to({{0}}, {to})", lambda a: it.broadcast_to(a, to)

    def _slice(self, shape: tuple[int, ...]) -> Any:
        axis = int(self._rng.integers(len(shape)))
        first = int(self._rng.integers(0, shape[axis]))
        step = int(self._rng.choice([1, 1, 2]))
        key = (*[slice(None)] * axis, slice(first, None, step))
        return f"{{0}}[{', '.join([':'] * axis + [f'{first}::{step}'])}]", lambda a: a[key]

    def _flip(self, shape: tuple[int, ...]) -> Any:
        axis = int(self._rng.integers(len(shape)))
        return f"it.flip({{0}}, axis={axis})", lambda a: it.flip(a, axis=axis)

    def _expand(self, shape: tuple[int, ...]) -> Any:
        axis = int(self._rng.integers(0, len(shape) + 1))
        return f"it.expand_dims({{0}}, axis={axis})", lambda a: it.expand_dims(a, axis=axis)

    def _other_shape(self, size: int) -> tuple[int, ...]:
        found: list[int] = []
        rest = size
        while rest > 1 and len(found) < 3:
            divisors = [d for d in range(2, min(rest, 60) + 1) if rest % d == 0]
            if not divisors:
                break
            found.append(int(self._rng.choice(divisors)))
            rest //= found[-1]
        return (*found, rest) if rest > 1 or not found else tuple(found)

    def _reduce(self, x: int) -> None:
        rank = len(self._values[x].shape)
        if not rank:
            return
        name = str(self._one_of(_REDUCTIONS if self._floats else _INTEGER_REDUCTIONS))
        count = int(self._rng.integers(1, rank + 1))
        axis = tuple(sorted(int(a) for a in self._rng.choice(rank, count, replace=False)))
        keep = bool(self._rng.random() < 0.6)
        function = getattr(it, name)
        if name.startswith("arg"):
            self._add(
                f"it.{name}({{0}}, axis={axis[0]}, keepdims={keep}).astype({{0}}.dtype)",
                lambda a: function(a, axis=axis[0], keepdims=keep).astype(a.dtype),
                x,
            )
            return
        self._add(
            f"it.{name}({{0}}, axis={axis}, keepdims={keep}).astype({{0}}.dtype)",
            lambda a: function(a, axis=axis, keepdims=keep).astype(a.dtype),
            x,
        )

    def _row(self, x: int) -> None:
        shape = self._values[x].shape
        if not shape:
            return
        kind = self._one_of(["softmax", "layer_norm", "log_softmax"])
        if kind == "layer_norm":
            size = shape[-1]
            self._add(f"it.layer_norm({{0}}, {size})", lambda a: it.layer_norm(a, size), x)
        else:
            function = getattr(it, kind)
            self._add(f"it.{kind}({{0}}, axis=-1)", lambda a: function(a, axis=-1), x)

    def _product(self, x: int) -> None:
        if self._values[x].ndim < 2:
            return
        factor = 0.1 if self._floats else 3
        self._add(
            f"it.matmul({{0}}, it.matrix_transpose({{0}})) * {factor}",
            lambda v: it.matmul(v, it.matrix_transpose(v)) * factor,
            x,
        )

    def _cast(self, x: int) -> None:
        shape = self._values[x].shape
        if not shape:
            return
        if not self._floats:
            self._add("{0}.astype('int16').astype({0}.dtype)", _through_int16, x)
            return
        size = shape[-1]
        self._add(
            f"{{0}} * (it.arange({size}) - 1).astype({{0}}.dtype)",
            lambda a: a * (it.arange(size) - 1).astype(a.dtype),
            x,
        )

    def _take(self, x: int) -> None:
        shape = self._values[x].shape
        if not shape:
            return
        axis = int(self._rng.integers(len(shape)))
        size = shape[axis]
        places = [int(i) for i in self._rng.integers(-size, size, int(self._rng.choice(SIZES)))]
        self._add(
            f"it.take({{0}}, it.asarray({places}), axis={axis})",
            lambda a: it.take(a, it.asarray(places), axis=axis),
            x,
        )

    def _join(self, x: int) -> None:
        if self._values[x].ndim:
            axis = int(self._rng.integers(self._values[x].ndim))
            self._add(
                f"it.concat([{{0}}, it.flip({{0}}, axis={axis})], axis={axis})",
                lambda a: it.concat([a, it.flip(a, axis=axis)], axis=axis),
                x,
            )

    def _piece(self, x: int) -> None:
        step = piece_step(self._rng, self._values, x, self._pick())
        if step is not None:
            self._act(step.text, step.function, *step.args)

    def _random(self, x: int) -> None:
        self._act(
            "it.dropout({0}, 0.25, generator=generator)",
            lambda world, a: it.dropout(a, 0.25, generator=world.generator),
            x,
        )

    def _number(self, x: int) -> None:
        if self._rng.random() < 0.5:
            self._act("{0} * number", lambda world, a: a * world.number, x)
        else:
            self._act(
                "count.value = count.value + 1\n{out} = {0} + 0.25 * count.value", _counted, x
            )

    def _state(self, x: int) -> None:
        number = len(self._cells)
        if number >= 3:
            return
        value = self._values[x]
        given = Input(value.shape, self._dtype, (self._seed, 100 + number))
        self._cells.append(given)
        self._world = World((*self._world.cells, it.Cell(it.asarray(given.array()))))
        text = (
            "c{n}.value = it.clip(c{n} * 0.5 + {{0}}, -100.0, 100.0)\n"
            "{{out}} = it.tanh(c{n}.value) - {{0}}"
        )
        self._act(text.format(n=number), lambda world, a: _moved_on(world.cells[number], a), x)


def _counted(world: World, a: Tensor) -> Tensor:
    world.count.value = world.count.value + 1
    return a + 0.25 * world.count.value


def _moved_on(cell: it.Cell[Tensor], a: Tensor) -> Tensor:
    cell.value = it.clip(cell * 0.5 + a, -100.0, 100.0)
    return it.tanh(cell.value) - a


def _through_int16(a: Tensor) -> Tensor:
    return a.astype("int16").astype(a.dtype)


_FLOAT_STEPS = {
    "unary": 0.25, "binary": 0.25, "view": 0.15, "reduce": 0.12, "where": 0.05, "row": 0.04,
    "product": 0.03, "cast": 0.02, "take": 0.02, "join": 0.01, "random": 0.02, "number": 0.02,
    "state": 0.02,
}  # fmt: skip
_INTEGER_STEPS = {
    "unary": 0.24, "binary": 0.30, "view": 0.16, "reduce": 0.12, "where": 0.07, "product": 0.03,
    "cast": 0.04, "take": 0.03, "join": 0.01,
}  # fmt: skip
_REDUCTIONS = ["sum", "mean", "max", "min", "sum", "mean", "var"]
_INTEGER_REDUCTIONS = ["sum", "max", "min", "prod", "argmax", "argmin"]
_UNARY: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("-{0}", lambda a: -a),
    ("it.abs({0})", it.abs),
    ("it.exp(-it.abs({0}))", lambda a: it.exp(-it.abs(a))),
    ("it.log(1.0 + it.abs({0}))", lambda a: it.log(1.0 + it.abs(a))),
    ("it.tanh({0})", it.tanh),
    ("it.sigmoid({0})", it.sigmoid),
    ("it.sin(it.clip({0}, -9.0, 9.0))", lambda a: it.sin(it.clip(a, -9.0, 9.0))),
    ("it.sqrt(it.abs({0}) + 0.01)", lambda a: it.sqrt(it.abs(a) + 0.01)),
    ("it.relu({0})", it.relu),
    ("it.gelu({0})", it.gelu),
    ("it.erf({0})", it.erf),
    ("it.square(it.clip({0}, -30.0, 30.0))", lambda a: it.square(it.clip(a, -30.0, 30.0))),
]
_BINARY: list[tuple[str, Callable[[Any, Any], Tensor]]] = [
    ("{0} + {1}", lambda a, b: a + b),
    ("{0} - {1}", lambda a, b: a - b),
    ("it.clip({0} * {1}, -1e3, 1e3)", lambda a, b: it.clip(a * b, -1e3, 1e3)),
    ("{0} / (1.0 + {1} * {1})", lambda a, b: a / (1.0 + b * b)),
    ("it.maximum({0}, {1})", lambda a, b: it.maximum(a, b)),
    ("it.minimum({0}, {1})", lambda a, b: it.minimum(a, b)),
]
_INTEGER_UNARY: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("-{0}", lambda a: -a),
    ("it.abs({0})", it.abs),
    ("it.sign({0})", it.sign),
    ("it.square({0})", it.square),
    ("~{0}", lambda a: ~a),
    ("{0} << 2", lambda a: a << 2),
    ("{0} >> 1", lambda a: a >> 1),
]
_INTEGER_BINARY: list[tuple[str, Callable[[Any, Any], Tensor]]] = [
    ("{0} + {1}", lambda a, b: a + b),
    ("{0} - {1}", lambda a, b: a - b),
    ("{0} * {1}", lambda a, b: a * b),
    ("{0} // {1}", lambda a, b: a // b),
    ("{0} % {1}", lambda a, b: a % b),
    ("{0} & {1}", lambda a, b: a & b),
    ("{0} | {1}", lambda a, b: a | b),
    ("{0} ^ {1}", lambda a, b: a ^ b),
    ("it.maximum({0}, {1})", lambda a, b: it.maximum(a, b)),
    ("it.minimum({0}, {1})", lambda a, b: it.minimum(a, b)),
]

"""Kernels that add elements of rows at their ends, or take them back: what they touch, and where
they may run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Extend, ExtendNumbers, Map, Nest, Operand, Row
from ingle.fusion.kernel.validation import validate
from ingle.fusion.render.llvm.source import render
from ingle.testkit.bits import same_bits

from .test_every_nth import before_a_wall
from .test_targets import MACHINES, undefined_symbols

MODES = {-1: "reflect", 0: "edge", 1: "wrap"}


def extend_nest(dtype: str, step: int, back: bool = False) -> Nest:
    """Rows that begin where operand 0 does."""
    row, b = CodeBuilder(), CodeBuilder()
    code, values = row.finish(row.constant(0, "int64"))
    load, (root,) = b.finish(b.load(0, dtype))
    operands = Operand(dtype, False, "zero", 0), Operand(dtype, True)
    scalars = ("int64",) * len(ExtendNumbers._fields)
    return Nest(
        1, operands, scalars, (Row(code, (), values), Extend(load, ((1, root),), step, back))
    )


def run(machine: Any, nest: Nest, x: Any, y: Any, size: int, low: int, high: int) -> None:
    args = np.array([1, len(y), 0, 0, 0, 1, low, high, size, 1], np.int64)
    pointers = np.array([x.ctypes.data, y.ctypes.data], np.uint64)
    machine.kernel(nest).function(pointers.ctypes.data, args.ctypes.data, 0, 1, 0)


@pytest.mark.parametrize("step", MODES)
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
@pytest.mark.parametrize("size", [3, 4, 8, 31, 32, 33, 67, 140])
def test_nothing_else_is_read_or_written(machine: Any, dtype: str, size: int, step: int) -> None:
    low, high = 2, 1
    held, x = before_a_wall(size, np.dtype(dtype))
    more, y = before_a_wall(size + low + high, np.dtype(dtype))
    x[:] = np.random.default_rng(size).integers(0, 256, size)
    run(machine, extend_nest(dtype, step), x, y, size, low, high)
    mode: Any = MODES[step]
    assert same_bits(y, np.pad(x, (low, high), mode=mode))
    del held, more


@pytest.mark.parametrize("step", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [3, 8, 33, 140])
def test_ends_go_back_to_what_they_repeat(machine: Any, dtype: str, size: int, step: int) -> None:
    low, high = 1, 2
    held, g = before_a_wall(size + low + high, np.dtype(dtype))
    more, y = before_a_wall(size, np.dtype(dtype))
    g[:] = np.random.default_rng(size).standard_normal(len(g))
    run(machine, extend_nest(dtype, step, True), g, y, size, low, high)
    mode: Any = MODES[step]
    places = np.pad(np.arange(size), (low, high), mode=mode)
    want = g[low : low + size].copy()
    for i in (*range(low), *range(low + size, len(g))):
        want[places[i]] += g[i]
    assert same_bits(y, want)
    del held, more


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("back", [False, True])
def test_objects_call_nothing(machine: Any, name: str, back: bool) -> None:
    target, triple, cpu = MACHINES[name]
    text = render(extend_nest("float32", -1, back), "kernel", target)
    module = machine.binding.parse_assembly(text)
    module.triple = triple
    compiler = machine.binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, opt=1, reloc="pic", codemodel="small"
    )
    assert not undefined_symbols(compiler.emit_object(module))


def test_rows_are_extended_alone() -> None:
    nest = extend_nest("float32", 1)
    validate(nest)
    row, stage = nest.stages
    for wrong in (
        nest._replace(scalars=()),
        nest._replace(stages=(stage,)),
        nest._replace(stages=(row, stage, Map(stage.code, stage.stores))),
        nest._replace(operands=nest.operands[::-1]),
        nest._replace(operands=(nest.operands[0]._replace(row_base=None), nest.operands[1])),
        nest._replace(lanes="outer"),
        nest._replace(row_length=8),
        extend_nest("float32", 2),
        extend_nest("int32", 1, back=True),
    ):
        with pytest.raises(ValueError, match="bad nest"):
            validate(wrong)

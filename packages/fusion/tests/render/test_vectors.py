"""How many vectors a work item of a map takes."""

from __future__ import annotations

import pytest

from ingle.fusion.kernel.code import CodeBuilder
from ingle.fusion.kernel.nest import Map, Nest, Operand
from ingle.fusion.render.c.vectors import MOST_REGISTERS, vectors_in_flight


def sum_of(dtype: str, operands: int, function: str) -> Nest:
    """A function of the sum of some operands."""
    b = CodeBuilder()
    total, *others = [b.cast(b.load(n, dtype), "float32") for n in range(operands)]
    for x in others:
        total = b.append("add", "float32", (total, x))
    code, (root,) = b.finish(b.cast(b.append(function, "float32", (total,)), dtype))
    given = (*[Operand(dtype)] * operands, Operand(dtype, True))
    return Nest(0, given, (), (Map(code, ((operands, root),)),))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_functions_of_half_types_have_more_vectors_in_flight(dtype: str) -> None:
    most = 2 if dtype == "float32" else 4
    assert [vectors_in_flight(sum_of(dtype, n, "exp")) for n in (1, 2)] == [most, most]
    assert [vectors_in_flight(sum_of(dtype, n, "neg")) for n in (1, 2)] == [2, 2]


@pytest.mark.parametrize("function", ["exp", "neg"])
def test_vectors_leave_registers(function: str) -> None:
    for operands in range(1, 40):
        count = vectors_in_flight(sum_of("float16", operands, function))
        assert count == 1 or (operands + 1) * 4 * count <= MOST_REGISTERS

"""What kernels are told of the lengths of their rows."""

from __future__ import annotations

import pytest

from ingle.fusion.kernel.code import Code, CodeBuilder
from ingle.fusion.kernel.nest import Map, Nest, Operand, Reduce, map_nest
from ingle.fusion.lowering.row_lengths import with_row_length, with_strides


def scaled(lanes: str = "inner") -> Nest:
    """Rows times another operand, over their sums."""
    b = CodeBuilder()
    product = b.append("mul", "float32", (b.load(0, "float32"), b.load(1, "float32")))
    code, (root,) = b.finish(product)
    b = CodeBuilder()
    total = b.append("result", "float32", (), (0, 0))
    share, (out,) = b.finish(b.append("div", "float32", (b.load(0, "float32"), total)))
    operands = (Operand("float32"), Operand("float32"), Operand("float32", True))
    return Nest(1, operands, (), (Reduce(code, (("sum", root),)), Map(share, ((2, out),))), lanes)


@pytest.mark.parametrize(
    ("length", "row_length", "one_block", "long_rows", "ahead"),
    [
        (10, 10, True, False, ()),
        (33, 0, True, False, ()),
        (256, 0, True, True, (0,)),
        (2048, 0, True, True, (0,)),
        (2049, 0, False, True, ()),
    ],
)
def test_rows(
    length: int, row_length: int, one_block: bool, long_rows: bool, ahead: tuple[int, ...]
) -> None:
    """The other operand is the same for all rows, so it is not fetched again."""
    nest = with_row_length(scaled(), (100, length), [(length, 1), (0, 1), (length, 1)])
    found = nest.row_length, nest.one_block, nest.long_rows, nest.prefetched
    assert found == (row_length, one_block, long_rows, ahead)


def test_one_row_and_one_pass_have_nothing_ahead() -> None:
    strides = [(512, 1)] * 3
    assert with_row_length(scaled(), (100, 512), strides).prefetched == (0, 1)
    assert with_row_length(scaled(), (1, 512), strides).prefetched == ()
    nest = scaled()
    one = nest._replace(stages=nest.stages[:1])
    assert with_row_length(one, (100, 512), strides).prefetched == ()
    assert not with_row_length(one, (100, 512), strides).long_rows, "nothing is divided"
    columns = with_row_length(scaled("outer"), (100, 10), [(1, 100)] * 3)
    assert (columns.row_length, columns.one_block, columns.prefetched) == (0, False, ())


def test_small_strides_are_known_along_the_lanes() -> None:
    nest = with_strides(scaled(), [(512, 2), (0, 1), (512, 2)])
    assert [o.apart for o in nest.operands] == [0] * 3, "these are not strided"
    strided = tuple([o._replace(lane="strided") for o in nest.operands])
    nest = with_strides(nest._replace(operands=strided), [(512, 2), (0, 3), (512, -2)])
    assert [o.apart for o in nest.operands] == [2, 3, 0]
    nest = with_strides(nest, [(512, 4), (0, 9), (512, 1)])
    assert [o.apart for o in nest.operands] == [4, 0, 0]
    wide = with_strides(
        nest._replace(operands=(Operand("float64", lane="strided"),) * 3),
        [(512, 4), (0, 5), (8, 8)],
    )
    assert [o.apart for o in wide.operands] == [4, 0, 0], "few of them lie in a cache line"
    outer = nest._replace(lanes="outer", operands=strided)
    assert with_strides(outer, [(2, 512)] * 3) == outer


def test_operands_of_like_strides_are_known() -> None:
    strides = [(512, 0, 1), (512, 0, 7), (0, 512, 1), (512, 0, 2), (0, 512, 1)]
    operands = [Operand("float32", k == 4, "strided") for k in range(5)]
    code, root = added(4)
    nest = map_nest(2, operands, [], code, (4, root))
    assert [o.alike for o in with_strides(nest, strides).operands] == [None, 0, None, 0, 2]
    flat = nest._replace(outer=0)
    assert [o.alike for o in with_strides(flat, [(1,)] * 5).operands] == [None] * 5


def added(count: int) -> tuple[Code, int]:
    """The sum of some operands."""
    b = CodeBuilder()
    total = b.load(0, "float32")
    for k in range(1, count):
        total = b.append("add", "float32", (total, b.load(k, "float32")))
    code, (root,) = b.finish(total)
    return code, root

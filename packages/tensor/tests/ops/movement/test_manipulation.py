"""Shapes, joins, slices, padding and rearranging against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.dispatch import watch
from ingle.tensor.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    OperandError,
    OutOfRangeError,
    ShapeError,
)

SHAPES = [(), (5,), (2, 3), (2, 1, 3), (0, 3), (1, 1)]


def values(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def strided(shape: tuple[int, ...]) -> np.ndarray:
    """Values that do not lie one after another in memory."""
    return values((*shape[::-1], 2)).T[0] if shape else values(())


def check(got: Any, expected: np.ndarray) -> None:
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_functions(shape: tuple[int, ...]) -> None:
    for x in (values(shape), strided(shape)):
        t = it.asarray(x)
        check(it.squeeze(t), np.squeeze(x))
        check(it.expand_dims(t), np.expand_dims(x, 0))
        check(it.expand_dims(t, axis=-1), np.expand_dims(x, -1))
        check(it.flatten(t), np.ravel(x))
        check(t.ravel(), np.ravel(x))
        check(it.flip(t), np.flip(x))
        check(it.tile(t, (2, 3)), np.tile(x, (2, 3)))
        check(it.tile(t, 2), np.tile(x, 2))
        check(it.repeat(t, 3), np.repeat(x, 3))
        check(it.roll(t, 2), np.roll(x, 2))


def test_squeeze_and_expand_dims_take_several_axes() -> None:
    x = it.zeros((1, 2, 1, 3))
    assert it.squeeze(x, (0, -2)).shape == (2, 3)
    assert it.squeeze(x, 2).shape == (1, 2, 3)
    assert it.expand_dims(it.zeros((2, 3)), (0, -1)).shape == (1, 2, 3, 1)
    with pytest.raises(ShapeError, match=r"axis 1 of shape .* has size 2"):
        it.squeeze(x, 1)
    with pytest.raises(AxisError, match="expand_dims: axis=3"):
        it.expand_dims(it.zeros((2,)), 3)


def test_moveaxis_swapaxes_flatten() -> None:
    x = values((2, 3, 4, 5))
    t = it.asarray(x)
    for source, to in ((0, -1), (-1, 0), ((0, 1), (3, 1)), ((2, 0), (0, 2)), (1, 1)):
        check(it.moveaxis(t, source, to), np.moveaxis(x, source, to))
    check(it.swapaxes(t, 1, -1), np.swapaxes(x, 1, -1))
    assert it.flatten(t, 1, 2).shape == (2, 12, 5)
    assert it.flatten(t, -2).shape == (2, 3, 20)
    with pytest.raises(AxisError, match="comes after"):
        it.flatten(t, 2, 1)
    with pytest.raises(AxisError, match="must name as many axes"):
        it.moveaxis(t, (0, 1), 0)
    with pytest.raises(AxisError, match="twice"):
        it.moveaxis(t, (0, 0), (0, 1))
    with pytest.raises(AxisError, match="axis2=4"):
        it.swapaxes(t, 0, 4)


def test_roll_and_flip_along_axes() -> None:
    x = values((3, 4))
    t = it.asarray(x)
    for shift, axis in ((1, 0), (-2, 1), (7, 1), ((1, 2), (0, 1)), (2, (0, 1)), ((1, 1), (0, 0))):
        check(it.roll(t, shift, axis=axis), np.roll(x, shift, axis=axis))
    check(it.flip(t, axis=(0, -1)), np.flip(x, (0, -1)))
    check(it.flip(it.zeros((0, 3))), np.zeros((0, 3)))
    with pytest.raises(ArgumentError, match="same length"):
        it.roll(t, (1, 2), axis=0)
    with pytest.raises(AxisError, match="axis=2"):
        it.flip(t, axis=2)


def test_repeat_by_counts() -> None:
    x = values((3, 2))
    t = it.asarray(x)
    check(it.repeat(t, [2, 0, 1], axis=0), np.repeat(x, [2, 0, 1], axis=0))
    check(it.repeat(t, it.asarray([1, 3]), axis=1), np.repeat(x, [1, 3], axis=1))
    check(it.repeat(t, np.array(2), axis=1), np.repeat(x, 2, axis=1))
    check(it.repeat(t, 0, axis=1), np.repeat(x, 0, axis=1))
    with pytest.raises(ShapeError, match="2 numbers for an axis of size 3"):
        it.repeat(t, [1, 2], axis=0)
    with pytest.raises(ArgumentError, match="not be negative"):
        it.repeat(t, -1)
    with pytest.raises(ArgumentError, match="integers of at least 0"):
        it.repeat(t, [1.0, 2.0, 3.0], axis=0)


def test_concat_and_stack() -> None:
    a, b, c = values((2, 3)), values((1, 3), 1), values((0, 3), 2)
    check(it.concat([it.asarray(v) for v in (a, b, c)]), np.concatenate([a, b, c]))
    check(it.concat([it.asarray(a), it.asarray(b)], axis=None), np.concatenate([a, b], axis=None))
    for axis in (0, 1, 2, -1):
        check(it.stack([it.asarray(a), it.asarray(-a)], axis=axis), np.stack([a, -a], axis=axis))
    mixed = it.concat([it.asarray([1]), it.asarray([2.5])])
    assert mixed.dtype is it.float32
    assert mixed.tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    ("arrays", "kwargs", "error", "match"),
    [
        ([], {}, ArgumentError, "at least one tensor"),
        (it.zeros(3), {}, OperandError, r"concat\(\[a, b\]\)"),
        ([it.zeros((2, 3)), it.zeros((2, 4))], {}, ShapeError, "all axes but axis 0"),
        ([it.zeros(3), it.zeros((3, 1))], {}, ShapeError, "must agree"),
        ([it.zeros(3)], {"axis": 1}, AxisError, "axis=1 is out of range"),
        ([it.zeros(()), it.zeros(())], {}, AxisError, "0-d"),
        ([it.zeros(3), [1, 2]], {}, OperandError, r"arrays\[1\]"),
    ],
)
def test_concat_refuses(arrays: Any, kwargs: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        it.concat(arrays, **kwargs)


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_stack_along_every_axis(shape: tuple[int, ...], count: int) -> None:
    arrays = [values(shape, n).astype(f"float{64 if n else 32}") for n in range(count)]
    for axis in range(-len(shape) - 1, len(shape) + 1):
        found = it.stack([it.asarray(a) for a in arrays], axis=axis)
        wanted = np.stack(arrays, axis=axis)
        assert found.numpy().dtype == wanted.dtype
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_stack_takes_few_operations_of_many_tensors() -> None:
    """A loop that collects a thousand rows had one for each of them."""
    rows, seen = [it.asarray([1.0, 2.0]) for _ in range(20)], []
    watch(lambda op, inputs, outputs: seen.append(op.operation.name))
    try:
        it.stack(rows)
        it.stack(rows, axis=-1)
    finally:
        watch(None)
    assert seen == ["concat", "reshape", "concat", "reshape", "permute_dims"]


@pytest.mark.slow
def test_unstacked_rows_stay_what_they_are_when_the_whole_is_written() -> None:
    for shape, axis in (((4,), 0), ((2, 40_000), 0), ((2, 40_000), 1)):
        x = it.zeros(shape)
        x[0] = 1.0
        before = x.numpy().copy()
        rows = it.unstack(x, axis=axis)
        x[...] = 5.0
        for n in (0, -1):
            np.testing.assert_array_equal(rows[n].numpy(), np.take(before, n, axis))


def test_stack_refuses_different_shapes() -> None:
    with pytest.raises(ShapeError, match=r"\(2,\) and \(3,\)"):
        it.stack([it.zeros(2), it.zeros(3)])


def test_unstack_split_chunk() -> None:
    torch = pytest.importorskip("torch")
    x = values((5, 4))
    t, reference = it.asarray(x), torch.tensor(x)
    for axis in (0, -1):
        for got, row in zip(it.unstack(t, axis=axis), np.moveaxis(x, axis, 0), strict=True):
            check(got, row)
        for size in (2, 5, 9):
            pairs = zip(it.split(t, size, axis=axis), reference.split(size, dim=axis), strict=True)
            for got, want in pairs:
                check(got, want.numpy())
        for count in (1, 2, 3, 7):
            chunks = zip(
                it.chunk(t, count, axis=axis), reference.chunk(count, dim=axis), strict=True
            )
            for got, want in chunks:
                check(got, want.numpy())
    assert [p.shape for p in it.split(t, [1, 0, 4])] == [(1, 4), (0, 4), (4, 4)]
    assert [p.shape for p in it.split(it.zeros((0, 2)), 3)] == [(0, 2)]
    with pytest.raises(ShapeError, match="add up to 5"):
        it.split(t, [2, 2])
    with pytest.raises(ArgumentError, match="at least 1"):
        it.split(t, 0)
    with pytest.raises(ArgumentError, match="chunks must be at least 1"):
        it.chunk(t, 0)


def test_broadcast_arrays() -> None:
    a, b = values((3, 1)), values((4,), 1)
    for got, want in zip(
        it.broadcast_arrays(it.asarray(a), it.asarray(b)), np.broadcast_arrays(a, b), strict=True
    ):
        check(got, want)
    with pytest.raises(ShapeError, match="do not broadcast"):
        it.broadcast_arrays(it.zeros(2), it.zeros(3))
    assert it.broadcast_arrays() == ()
    assert it.broadcast_shapes() == ()
    assert it.broadcast_shapes((2, 1, 3), [5, 1], (0, 1, 1, 1)) == (0, 2, 5, 3)
    with pytest.raises(ShapeError, match=r"shapes\[0\] \(2,\), shapes\[1\] \(3,\) do not"):
        it.broadcast_shapes((2,), (3,))
    with pytest.raises(ArgumentError, match=r"broadcast_shapes: shapes\[0\] must be a tuple"):
        it.broadcast_shapes(3)  # type: ignore[arg-type]


def test_slice_reads_any_regular_piece() -> None:
    x = values((7, 6))
    t = it.asarray(x)
    check(it.slice(t, (1, 5), (3, 6), (2, -1)), x[1:7:2, ::-1])
    check(it.slice(t, (-2, 0), (2, 0)), x[-2:, :0])
    check(it.slice(t, (it.asarray(2), 1), (2, 3)), x[2:4, 1:4])
    check(it.slice(it.asarray(2.0), (), ()), np.asarray(2.0))
    with pytest.raises(OutOfRangeError, match="axis 0 of size 7"):
        it.slice(t, (5, 0), (3, 1))
    with pytest.raises(OutOfRangeError, match="do not lie inside of axis 1"):
        it.slice(t, (0, it.asarray(5)), (1, 2)).numpy()
    with pytest.raises(ShapeError, match="do not fit into axis 1"):
        it.slice(t, (0, it.asarray(0)), (1, 7))
    with pytest.raises(ShapeError, match="a number for each"):
        it.slice(t, (0,), (1,))
    with pytest.raises(ArgumentError, match="step other than 0"):
        it.slice(t, (0, 0), (1, 1), (1, 0))
    with pytest.raises(DTypeError, match=r"starts\[0\]"):
        it.slice(t, (it.asarray(1.0), 0), (1, 1))
    with pytest.raises(ArgumentError, match=r"starts\[1\]"):
        it.slice(t, (0, 1.0), (1, 1))


def test_a_start_is_no_part_of_the_operation() -> None:
    from ingle.tensor.operation import _avals

    x = it.zeros((40, 3))
    it.slice(x, (0, 0), (2, 3))
    before = len(_avals)
    for i in range(38):
        it.slice(x, (i, 0), (2, 3))
    assert len(_avals) == before


def test_slice_update() -> None:
    x, y = values((5, 4)), values((2, 3), 1)
    expected = x.copy()
    expected[3:0:-2, 1:] = y
    got = it.slice_update(it.asarray(x), it.asarray(y), (3, 1), (-2, 1))
    check(got, expected)
    with pytest.raises(DTypeError, match="y must have the dtype float64"):
        it.slice_update(it.asarray(x), it.zeros((1, 1)), (0, 0))
    with pytest.raises(OutOfRangeError, match="axis 0"):
        it.slice_update(it.asarray(x), it.asarray(y), (4, 0))


WIDTHS = [1, (1, 2), ((0, 2), (1, 0)), ((-1, 1), (2, -2)), ((-1, -1), (0, 0)), 0]
MODES = [("constant", "constant"), ("edge", "edge"), ("reflect", "reflect"), ("circular", "wrap")]


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize(("mode", "numpy_mode"), MODES)
def test_pad(widths: Any, mode: Any, numpy_mode: Any) -> None:
    x = values((4, 5))
    full = np.broadcast_to(np.asarray(widths), (2, 2)).tolist()
    (top, bottom), (left, right) = full
    cut = x[max(-top, 0) : 4 - max(-bottom, 0), max(-left, 0) : 5 - max(-right, 0)]
    grown = [(max(a, 0), max(b, 0)) for a, b in full]
    options = {"constant_values": 1.5} if mode == "constant" else {}
    expected = np.pad(cut, grown, mode=numpy_mode, **options)
    check(it.pad(it.asarray(x), widths, mode=mode, value=1.5), expected)


def test_pad_refuses() -> None:
    x = it.zeros((2, 3))
    with pytest.raises(ArgumentError, match="mode='mirror'"):
        it.pad(x, 1, mode="mirror")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="pair for each of the 2 axes"):
        it.pad(x, ((1, 1),))
    with pytest.raises(ArgumentError, match=r"PyTorch's.* is \(\(0, 0\), \(3, 4\), \(1, 2\)\)$"):
        it.pad(it.ones((2, 2, 2)), (1, 2, 3, 4))
    with pytest.raises(ShapeError, match="at least 3 elements along axis 0"):
        it.pad(x, 2, mode="reflect")
    with pytest.raises(ShapeError, match="at least 3 elements along axis 0"):
        it.pad(x, 3, mode="circular")
    with pytest.raises(ShapeError, match="at least 1 elements"):
        it.pad(it.zeros((0,)), 1, mode="edge")
    with pytest.raises(ShapeError, match="cut off more than axis 0"):
        it.pad(x, ((-2, -1), (0, 0)))
    assert it.pad(it.ones(1, dtype=bool), 1).tolist() == [False, True, False]
    with pytest.raises(DTypeError, match=r"value=0\.5 does not fit the dtype int64"):
        it.pad(it.arange(3), 1, value=0.5)


@pytest.mark.parametrize("far", [1 << 63, -(1 << 70)])
def test_indices_of_triangles_of_any_offset(far: int) -> None:
    all_, none = it.tril_indices(2, 3, offset=2), it.tril_indices(2, 3, offset=-2)
    lower, upper = it.tril_indices(2, 3, offset=far), it.triu_indices(2, 3, offset=far)
    assert lower.tolist() == (all_ if far > 0 else none).tolist()
    assert upper.tolist() == (none if far > 0 else all_).tolist()


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_an_index_outside_is_told_by_the_name_that_was_called(device: str) -> None:
    rows, columns = (it.asarray(i, device=device) for i in ([0, 1], [5, 2]))
    with pytest.raises(OutOfRangeError, match="ravel_multi_index: the indices hold 5, but axis 1"):
        it.ravel_multi_index((rows, columns), (2, 3)).numpy()

"""Short rows in order: a network of comparisons on all of a row's elements, many rows at a time.

A network compares the same places whatever it finds there, so each lane may have a row of its own.
What it compares are integers. For places they have the order of the elements above and the place
below: no two of them are equal, which makes every sort a stable one. For elements they are just in
order, and the elements come back from them; of the zeros the negative one is the smaller there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ingle.tensor.operation import Op

from ..ir.graph import Graph
from ..ir.merge_axes import lane_of, merged
from ..ir.views import View
from ..kernel.code import FLOATS, SIZES, UNSIGNED, CodeBuilder
from ..kernel.expression import Expression, in_order, out_of_order
from ..kernel.lowering import sort_of
from ..kernel.nest import MAX_OUTER, Map, Nest, Operand, accumulator_dtype
from .nests import NestCall
from .operands import Argument
from .scan import Numbers


def sorting_call(
    graph: Graph, position: int, source: View, target: View, number: Numbers
) -> NestCall | None:
    """The kernel of one `sort` or `argsort`; arguments and answer are as those of `scan_call`."""
    node = graph.nodes[position]
    axis = node.op.attributes["axis"]
    dtypes = [graph.values[v].aval.dtype.name for v in (node.args[0], node.results[0])]
    builder, scalars = CodeBuilder(), list[int]()
    count, known = range(source.shape[axis]), number(builder, source.root, scalars)
    views = [target] if known is not None else [source, target]
    axes = merged(_others(source.shape, axis), [_others(v.strides, axis) for v in views])
    sizes, strides = axes.sizes or (1,), [s or (1,) for s in axes.strides]
    if len(sizes) - 1 > MAX_OUTER:
        return None
    arguments, operands = list[Argument](), list[Operand]()
    for view, steps in zip(views, strides, strict=True):
        dtype, output = dtypes[view is target], view is target
        operands += [Operand(dtype, output, lane_of(steps[-1]))] * len(count)
        offsets = [view.offset + place * view.strides[axis] for place in count]
        arguments += [Argument(view.root, steps, offset, output) for offset in offsets]
    found = [builder.load(k, dtypes[0]) if known is None else known for k in count]
    rows = _sorted([Expression(builder, at) for at in found], node.op, dtypes[1])
    code, roots = builder.finish(*[row.at for row in rows])
    first = len(operands) - len(count)
    nest = Nest(
        len(sizes) - 1,
        tuple(operands),
        tuple([graph.values[s].aval.dtype.name for s in scalars]),
        (Map(code, tuple([(first + k, root) for k, root in enumerate(roots)])),),
    )
    every = tuple([a.strides for a in arguments])
    return NestCall(nest, tuple(arguments), sizes, every, tuple(scalars), (position,))


def _sorted(row: Sequence[Expression], op: Op, dtype: str) -> list[Expression]:
    """The result of an operation that sorts a row."""
    places, descending = sort_of(op) == "places", op.attributes["descending"]
    keys = [_key(x, k if places else None, descending) for k, x in enumerate(row)]
    for i, j in network(len(keys)):
        keys[i], keys[j] = keys[i].call("min", keys[j]), keys[i].call("max", keys[j])
    if places:
        return [(key & 0xFFFFFFFF).cast(dtype) for key in keys]
    return [_element(key, dtype, descending) for key in keys]


def _others(numbers: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*numbers[:axis], *numbers[axis + 1 :])


def _key(x: Expression, place: int | None, descending: bool) -> Expression:
    """The order of an element above, its place below; or an integer that says what it is."""
    key = in_order(x.widen(), largest=True, zeros=place is None)
    if place is None:
        return ~key if descending else key
    whole = key.cast("int64")
    if key.dtype in UNSIGNED and SIZES[key.dtype] == 4:
        whole = whole - (1 << 31)
    return ((~whole if descending else whole) << 32) | place


def _element(key: Expression, dtype: str, descending: bool) -> Expression:
    """The element that a key without a place stands for."""
    key = ~key if descending else key
    if dtype not in FLOATS:
        return key.cast(dtype)
    return out_of_order(key, accumulator_dtype(dtype)).cast(dtype)


def network(count: int) -> Iterator[tuple[int, int]]:
    """Which places to compare, one after the other, so that the smaller goes to the first.

    It merges by odds and evens: Batcher, Sorting networks and their applications (1968); as
    Knuth's algorithm 5.2.2 M has it for any number of places.

    >>> list(network(4))
    [(0, 2), (1, 3), (0, 1), (2, 3), (1, 2)]
    """
    top = 1 << max((count - 1).bit_length() - 1, 0)
    step = top
    while step and count > 1:
        reach, parity, distance = top, 0, step
        while True:
            for i in range(count - distance):
                if i & step == parity:
                    yield i, i + distance
            if reach == step:
                break
            distance, reach, parity = reach - step, reach >> 1, step
        step >>= 1

"""The operations that a backend may have kernels for, as a table: what `ingle ops` prints.

Nothing of it is written by hand. Names, families and bodies are those of the rooms; dtypes are
those that operations are asked with when each public function is traced on its room's samples.
"""

from __future__ import annotations

import contextlib
import importlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from .contract import Aval, Scalar
from .device import device
from .dtypes import ALL_DTYPES, DType, from_numpy_dtype
from .eager import REFERENCE
from .errors import IngleError
from .operation import LATE_ROOMS, OPERATIONS, Op, Operation
from .programs import tracing
from .pytree import flatten, unflatten
from .sample import Draw

Asked = dict[str, dict[str, set[str]]]
"""For each operation the dtypes of each of its inputs."""

KINDS = {
    "int": ("int8", "int16", "int32", "int64"), "uint": ("uint8", "uint16", "uint32", "uint64"),
    "float": ("float16", "bfloat16", "float32", "float64"), "complex": ("complex64", "complex128"),
}  # fmt: skip
"""Dtypes that one word stands for, where all of them are meant."""
_ORDER = ("bool", *(name for names in KINDS.values() for name in names))


def operations(names: Collection[str] = ()) -> list[Operation]:
    """The operations of some names or families, in the order of their definition; without any, all.

    >>> from ingle.tensor.operation_table import operations
    >>> [o.name for o in operations(["argreduce", "exp"])]
    ['exp', 'argmax', 'argmin']
    """
    for module in ("ingle.tensor", *LATE_ROOMS):  # whose rooms fill the table
        importlib.import_module(module)
    return [
        o for o in OPERATIONS.values()
        if not names or o.name in names or o.traits.family in names
    ]  # fmt: skip


def told(chosen: Sequence[Operation]) -> list[dict[str, Any]]:
    """What there is to know of operations before one writes kernels of them.

    >>> from ingle.tensor.operation_table import operations, told
    >>> (take,) = told(operations(["take"]))
    >>> take["tensors"], take["statics"], take["family"], take["dtypes"]["indices"]
    (['x', 'indices'], ['axis'], 'gather', ['int32', 'int64'])
    """
    asked = dtypes_asked()
    return [
        {
            "name": o.name,
            "tensors": [*o.tensors, *(["..."] if o.variadic else [])],
            "statics": list(o.statics),
            "outputs": [*o.outputs, *(["..."] if o.many_outputs else [])],
            "family": o.traits.family,
            "kind": o.traits.kind,
            "dtypes": {n: sorted(d, key=_ORDER.index) for n, d in asked[o.name].items()},
            "composed": o.body is not None,
        }
        for o in chosen
    ]


def table(chosen: Sequence[Operation]) -> Iterator[str]:
    """A line for each operation: what a kernel of it takes and returns.

    The dtypes are those of the input that may have most of them.
    """
    rows: list[tuple[str, ...]] = [
        ("operation", "tensors", "statics", "outputs", "family", "dtypes", "without a kernel")
    ]
    for o, line in zip(chosen, told(chosen), strict=True):
        parts = [", ".join(line[k]) or "-" for k in ("tensors", "statics", "outputs")]
        dtypes: Collection[str] = max(line["dtypes"].values(), key=len, default=())
        way = "host" if o.body is None else "composed"
        rows.append((o.name, *parts, o.traits.family or "-", shortened(dtypes), way))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()


def shortened(dtypes: Collection[str]) -> str:
    """Names of dtypes with one word for those of a kind, where all of them are there.

    >>> from ingle.tensor.operation_table import shortened
    >>> shortened({"int64", "float16", "bfloat16", "float32", "float64"}), shortened(())
    ('int64, float', '-')
    """
    words = {n: kind for kind, names in KINDS.items() if set(names) <= {*dtypes} for n in names}
    return ", ".join(dict.fromkeys(words.get(n, n) for n in _ORDER if n in dtypes)) or "-"


def dtypes_asked() -> Asked:
    """The dtypes in which operations are asked for when users call functions on any dtype.

    The samples of all rooms are traced, so that nothing is computed: about a second. What only
    gradients or plans ask for is not among them, unless it has samples of its own.
    """
    found: Asked = defaultdict(lambda: defaultdict(set))
    for operation in list(OPERATIONS.values()):
        for dtype in ALL_DTYPES if operation.samples is not None else ():
            for op, inputs in _asked_of(operation, dtype):
                for name, x in zip(_names(op.operation, len(inputs)), inputs, strict=True):
                    found[op.operation.name][name].add(x.dtype.name)
    for operation in OPERATIONS.values():  # those whose first run is another operation
        if isinstance(operation.training, Operation):
            for name, names in found[operation.name].items():
                found[operation.training.name][name] |= names
    return found


def _names(operation: Operation, count: int) -> list[str]:
    """The names of so many inputs: the last one stands for many where an operation is variadic."""
    return [*operation.tensors, *operation.tensors[-1:] * count][:count]


def _asked_of(operation: Operation, dtype: DType) -> Iterator[tuple[Op, list[Aval | Scalar]]]:
    """What the public function asks of a device for samples in a dtype, if it takes them."""
    assert operation.samples is not None
    assert operation.public is not None
    for sample in operation.samples(Draw(0, dtype)):
        tree = [sample.args, dict(sample.kwargs)]
        leaves = flatten(tree)
        avals = [Aval(x.shape, from_numpy_dtype(x.dtype)) for x in leaves if _is_array(x)]
        with device(REFERENCE), tracing(REFERENCE, making=True) as tracer:
            inputs = map(tracer.input, avals)
            args, kwargs = unflatten(tree, [next(inputs) if _is_array(x) else x for x in leaves])
            # Not in this dtype, or with values alone.
            with contextlib.suppress(IngleError):
                operation.public(*args, **kwargs)
        yield from tracer.asked()
        if operation.traits.dynamic_shape:
            yield Op(operation, {}), list(avals)


def _is_array(x: object) -> bool:
    return isinstance(x, np.ndarray)

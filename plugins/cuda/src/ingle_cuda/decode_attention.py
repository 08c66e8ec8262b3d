"""The offer of attention of few queries, as in decoding: one generated kernel, or two.

The composition is six kernels, each of which takes longer to begin than to run, and cuDNN's kernels
are made for many queries. How the kernels compute it is told in `decode_attention_source`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.fusion.device import WholeCall
from ingle.fusion.device.kernel_backend import MemoryHandle, StridedHandle
from ingle.fusion.device.kernels import SIZES
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING

from .combined_pieces import COMBINE, combine_source
from .cudnn import Strides, contiguous, strides_of
from .decode_attention_source import (
    BATCH,
    NAME,
    PIECE,
    SCALE_AT,
    THREADS,
    WARP,
    KernelShape,
    source,
)
from .errors import told
from .row_lines import BYTES

if TYPE_CHECKING:
    from .backend import CudaBackend

_DTYPES = frozenset({"float32", "float16", "bfloat16"})
MOST_QUERIES = 16
"""With more, products of matrices pay."""
_MOST_FEATURES = 256
_MOST_COLUMNS = 1024
"""Of the rows of a block together: each warp keeps its own in shared memory."""
_ROWS = (8, 4, 2, 1)
"""Queries of a block."""
_LARGEST = (1 << 31) - 1
_SCALE = 4
"""The operand that is a factor of all scores."""
SCRATCH = -1
"""The number of a pointer to scratch memory."""
_MOST = 1024
"""Kinds of operands whose launches are kept."""


class DecodeProblem(NamedTuple):
    """Attention of few queries on operands that lie in some way.

    Attributes:
        dtype: of queries, keys, values and the result.
        mask: its dtype; empty if there is none.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithm of the sum of exponentials is a second result.
        batch: sizes of the axes of heads of keys and values.
        group: heads of queries that share one of these.
        queries, keys: how many; no query sees keys behind these.
        features, columns: of queries and keys, and of values.
        strides: of queries, keys, values, the mask if there is one, the result, and the logarithms
            if there are any: along `batch`, the group, places, and elements.
        vectors: elements that are loaded at once of queries, keys and values.
    """

    dtype: str
    mask: str
    causal: bool
    lse: bool
    batch: tuple[int, ...]
    group: int
    queries: int
    keys: int
    features: int
    columns: int
    strides: tuple[Strides, ...]
    vectors: tuple[int, int, int]


class KernelLaunch(NamedTuple):
    """A kernel with all but addresses.

    Attributes:
        source, name: of the kernel.
        operands: numbers of its pointers among operands and result, or `SCRATCH`.
        numbers: what follows the addresses in its argument.
        blocks, threads: of the grid.
    """

    source: str
    name: str
    operands: tuple[int, ...]
    numbers: tuple[int, ...]
    blocks: int
    threads: int

    def argument(self) -> Any:
        """The kernel's argument, with zeros in the place of addresses."""
        first = len(self.operands) + 1
        return (ctypes.c_int64 * (first + len(self.numbers)))(*[0] * first, *self.numbers)


class Launches(NamedTuple):
    """The kernels of an attention.

    Attributes:
        kernels: one behind the other.
        nbytes: of the scratch memory that they share.
    """

    kernels: tuple[KernelLaunch, ...]
    nbytes: int

    def scaled(self, scale: Scalar) -> Launches:
        """The same with a factor of the scores."""
        bits = int(np.asarray(scale.value.real, np.float32).view(np.int32))
        kernels = [
            k._replace(numbers=(*k.numbers[:SCALE_AT], bits, *k.numbers[SCALE_AT + 1 :]))
            for k in self.kernels
        ]
        return self._replace(kernels=tuple(kernels))


def problem_of(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None, offsets: Sequence[int] = (0, 0, 0),
) -> DecodeProblem | None:  # fmt: skip
    """The problem of an operation; None for what the kernels do not take.

    Args:
        strides: of the tensors that have axes; in C order if none are given.
        results: strides of the results, likewise.
        offsets: of queries, keys and values from a multiple of 16 bytes, in bytes.
    """
    if op.operation is not ATTENTION and op.operation is not ATTENTION_TRAINING:
        return None
    query, key, value, mask, _ = avals
    dtype = query.dtype.name
    if dtype not in _DTYPES or mask.dtype.name not in ("bool", dtype):
        return None
    if any(0 in a.shape for a in avals) or query.shape[-2] > MOST_QUERIES:
        return None
    if max(query.shape[-1], value.shape[-1]) > _MOST_FEATURES:
        return None
    out, *lse = made = infer(op, avals)
    tensors = [query, key, value, *([mask] if mask.shape else [])]
    given = [*(strides or [contiguous(a.shape) for a in tensors])]
    given += results or [contiguous(a.shape) for a in made]
    tensors += [out, *[a._replace(shape=(*a.shape, 1)) for a in lse]]
    given = [*given[:-1], (*given[-1], 0)] if lse else given
    places = query.shape[-2], key.shape[-2]
    own = [a.shape[-2:] for a in tensors]
    if mask.shape:
        own[3] = places
    lead = out.shape[:-2]
    lying = [
        _along((*lead, *sizes), a.shape, steps)
        for a, sizes, steps in zip(tensors, own, given, strict=True)
    ]
    batch, group, every = _axes(lead, lying)
    causal = bool(op.attributes["causal"])
    keys = min(places[1], places[0]) if causal else places[1]
    if len(batch) > BATCH or len(group) > 1 or math.prod(lead) * places[0] > _LARGEST:
        return None
    if keys > _LARGEST:
        return None
    batch = (*[1] * (BATCH - len(batch)), *batch)
    shared = math.prod(group)
    vectors = [
        _vector(dtype, size, steps, offset)
        for size, steps, offset in zip(
            (query.shape[-1], key.shape[-1], value.shape[-1]), every[:3], offsets, strict=True
        )
    ]
    return DecodeProblem(
        dtype, mask.dtype.name if mask.shape else "", causal, bool(lse), batch, shared, places[0],
        keys, query.shape[-1], value.shape[-1], tuple(every), (vectors[0], vectors[1], vectors[2]),
    )  # fmt: skip


def _along(sizes: Sequence[int], shape: Sequence[int], strides: Strides) -> Strides:
    """Strides along axes that an operand is broadcast to."""
    own = [0 if n == 1 else step for n, step in zip(shape, strides, strict=True)]
    return (*[0] * (len(sizes) - len(shape)), *own)


def _axes(
    lead: Sequence[int], lying: Sequence[Strides]
) -> tuple[tuple[int, ...], tuple[int, ...], list[Strides]]:
    """The axes of heads: those of keys and values, and those of queries that share one.

    Axes that lie behind each other in all operands are one.

    Args:
        lead: sizes of the axes of heads.
        lying: strides of each operand along these and its last two axes.

    Returns:
        Sizes of both, and for each operand its strides along `BATCH` axes, the group, and the last
        two.
    """
    found: tuple[list[int], list[int]] = [], []
    steps: tuple[list[list[int]], list[list[int]]] = [], []
    for axis, size in enumerate(lead):
        if size == 1:
            continue
        here = [strides[axis] for strides in lying]
        shares = here[1] == here[2] == 0
        sizes, before = found[shares], steps[shares]
        if sizes and all(a == b * size for a, b in zip(before[-1], here, strict=True)):
            sizes[-1] *= size
            before[-1] = here
        else:
            sizes.append(size)
            before.append(here)
    every: list[Strides] = []
    for n, strides in enumerate(lying):
        batch, group = ([of_axis[n] for of_axis in kind] for kind in steps)
        missing = BATCH - len(batch)
        every.append((*[0] * missing, *batch, *(group or [0]), *strides[-2:]))
    return tuple(found[0]), tuple(found[1]), every


def _vector(dtype: str, elements: int, strides: Strides, offset: int) -> int:
    """How many elements of rows that lie so can be loaded at once."""
    size = SIZES[dtype]
    *steps, column = strides
    if column != 1:
        return 1
    found = BYTES // size
    while any(n % found for n in (elements, offset // size, *steps)):
        found //= 2
    return found


def rows_of_block(problem: DecodeProblem, processors: int) -> int:
    """Queries of a block on a GPU of so many multiprocessors: as many as leave each of these one.

    No bit depends on it.
    """
    rows = problem.group * problem.queries
    beside = math.prod(problem.batch) * -(-problem.keys // PIECE)
    fitting = [n for n in _ROWS if n * problem.columns <= _MOST_COLUMNS and n < 2 * rows]
    return next((n for n in fitting if beside * -(-rows // n) >= processors), 1)


def launches_of(problem: DecodeProblem, processors: int) -> Launches | None:
    """The kernels of a problem; None for more blocks than a grid may have."""
    rows, each = problem.group * problem.queries, rows_of_block(problem, processors)
    blocks, pieces = -(-rows // each), -(-problem.keys // PIECE)
    heads, columns = math.prod(problem.batch), problem.columns
    if heads * blocks * pieces > _LARGEST:
        return None
    head = [*problem.batch, blocks, pieces, rows, problem.queries, problem.keys, 0]
    result = len(problem.strides) - 1 - problem.lse
    results = tuple(range(result, len(problem.strides)))
    own = problem.strides if pieces == 1 else problem.strides[: result + 1]
    strides = [step for steps in own for step in steps]
    shape = KernelShape(
        problem.dtype, problem.features, columns, each, problem.mask, problem.causal,
        problem.lse and pieces == 1, pieces == 1, problem.vectors,
    )  # fmt: skip
    lines = heads * rows
    first = KernelLaunch(
        source(shape), NAME, (*range(result), *(results if pieces == 1 else [SCRATCH])),
        (*head, *strides), heads * blocks * pieces, min(-(-problem.keys // WARP) * WARP, THREADS),
    )  # fmt: skip
    if pieces == 1:
        return Launches((first,), 0)
    second = KernelLaunch(
        combine_source(problem.dtype, columns, problem.lse), COMBINE, (SCRATCH, *results),
        (*head, *[step for steps in problem.strides[result:] for step in steps]), lines, THREADS,
    )  # fmt: skip
    return Launches((first, second), 4 * lines * pieces * (columns + 2))


class DecodeAttention:
    """The offer of attention of up to 16 queries, of float32 and half types.

    Heads may share keys, a mask may hide keys or be added to scores, and operands may lie in any
    way.

    Args:
        backend: of a GPU of NVIDIA's.
    """

    def __init__(self, backend: CudaBackend) -> None:
        self._backend = backend
        self._known: dict[Hashable, Launches | None] = {}

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        return problem_of(op, avals) is not None

    def launched(self, call: WholeCall) -> Launches | None:
        """The kernels of an operation within executables, whose inputs begin at multiples of 16
        bytes; None where operands or result have to be copied."""
        scale = call.numbers[_SCALE]
        if not isinstance(scale, Scalar):
            return None
        size = call.avals[0].dtype.itemsize
        offsets = [a.offset * size % BYTES for a in call.operands[:3]]
        results = tuple([a.strides for a in call.outputs])
        found = self._of(call.op, call.avals, call.strides, results, offsets)
        return None if found is None else found.scaled(scale)

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Puts the kernels into the stream."""
        scale = inputs[_SCALE]
        assert isinstance(scale, Scalar), "the scale of attention is a number"
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        handles = [x for x in inputs if isinstance(x, MemoryHandle | StridedHandle) and x.shape]
        found = self._lying(op, avals, handles)
        if found is None:
            handles = [self._backend.in_order(x) for x in handles]
            found = self._lying(op, avals, handles)
        assert found is not None, "takes() has seen it"
        made = [self._backend.empty(aval) for aval in infer(op, avals)]
        self._put(found.scaled(scale), [h.address for h in (*handles, *made)])
        return tuple(made)

    def _put(self, found: Launches, places: Sequence[int]) -> None:
        backend = self._backend
        kernels = [backend.kernel(launch.source, launch.name) for launch in found.kernels]
        # The pool gives it to others only behind what the stream does until then.
        scratch = backend.allocate(max(found.nbytes, 1))
        with backend.lock, told(backend.device, "attention of few queries was launched"):
            for kernel, launch in zip(kernels, found.kernels, strict=True):
                pointers = [scratch.address if n == SCRATCH else places[n] for n in launch.operands]
                given = launch.argument()
                given[: len(pointers)] = pointers
                backend.enqueue(kernel, given, launch.blocks, launch.threads, backend.stream)

    def _lying(
        self, op: Op, avals: Sequence[Aval], handles: Sequence[MemoryHandle | StridedHandle]
    ) -> Launches | None:
        strides = [strides_of(h) for h in handles]
        return self._of(op, avals, strides, None, [h.address % BYTES for h in handles[:3]])

    def _of(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: tuple[Strides, ...] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        key = op, *avals, *strides, results, *offsets
        if key not in self._known:
            problem = problem_of(op, avals, strides, results, offsets)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = problem and launches_of(problem, self._backend.limits.processors)
        return self._known[key]

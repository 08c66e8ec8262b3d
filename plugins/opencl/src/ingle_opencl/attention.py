"""Attention as one kernel, by softmax over keys as they come (Dao et al., arXiv 2205.14135).

A work group takes some queries, and one tile of keys and values after the other into local memory.
For each query it keeps the largest score so far, the sum of exponentials relative to it, and the
sum of values weighted with these; a larger score scales both down. So scores never go through
memory. Tiles behind the last key that a causal query sees are left out, which changes no bit.

Rows of local memory are an element longer than they hold: work items of a group read a column of
them at a time, from as many banks. A value whose key is hidden does not count, not even NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.fusion.device.kernel_backend import MemoryHandle, StridedHandle
from ingle.fusion.device.kernels import HALVES
from ingle.fusion.device.opencl import rounded
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING

if TYPE_CHECKING:
    from .backend import OpenCLBackend

NAME = "attention"
QUERIES = 16
"""Of a work group."""
SHARES = 4
"""Work items of a query: each takes every fourth key, then every fourth feature of the values."""
GROUP = QUERIES * SHARES
KEYS = (32, 16, 8)
"""Keys of a tile: the first that local memory has room for."""
LEAST_LOCAL = 32 << 10
"""Bytes of local memory that each device has."""
LEAD = 4
"""Axes before the last two, at most."""
FEWEST = 4
"""Queries that a group is worth waking for."""


class AttentionProblem(NamedTuple):
    """What the source of the kernel depends on.

    Attributes:
        dtype: of query, key, value and results.
        features: of a query and a key.
        columns: of the values.
        keys: of a tile.
        mask: its dtype; empty if there is none.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithm of the sum of exponentials is a second result.
    """

    dtype: str
    features: int
    columns: int
    keys: int
    mask: str
    causal: bool
    lse: bool


def keys_of_tile(features: int, columns: int, local: int) -> int | None:
    """How many keys a tile has; None where not even few have room."""
    for keys in KEYS:
        each = QUERIES * (features + 1 + keys + 1 + SHARES)
        each += features * (keys + 1) + keys * _padded(columns)
        if 4 * each <= max(local, LEAST_LOCAL):
            return keys
    return None


class Attention:
    """The offer of a device whose work items are many and small."""

    def __init__(self, backend: OpenCLBackend) -> None:
        self._backend = backend
        self._local = backend.limits.local
        self._table: Any = None

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Attention of float32 and half types, with what a gradient needs of it or without."""
        if op.operation is not ATTENTION and op.operation is not ATTENTION_TRAINING:
            return False
        query, key, value = avals[:3]
        if query.dtype.name != "float32" and query.dtype.name not in HALVES:
            return False
        if any(0 in a.shape or len(a.shape) > LEAD + 2 for a in avals):
            return False
        if query.shape[-2] < FEWEST or self._backend.limits.group < GROUP:
            return False
        return keys_of_tile(key.shape[-1], value.shape[-1], self._local) is not None

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Puts the kernel into the queue."""
        backend = self._backend
        *tensors, mask, scale = inputs
        assert isinstance(scale, Scalar), "the scale of attention is a number"
        hidden = [] if isinstance(mask, Scalar) and mask.value is True else [self._handle(mask)]
        results = [backend.empty(aval) for aval in infer(op, inputs)]
        query, key, value = handles = [self._handle(x) for x in tensors]
        keys = keys_of_tile(key.shape[-1], value.shape[-1], self._local)
        assert keys is not None, "takes() has found room"
        problem = AttentionProblem(
            query.dtype.name, key.shape[-1], value.shape[-1], keys,
            hidden[0].dtype.name if hidden else "", op.attributes["causal"], len(results) > 1,
        )  # fmt: skip
        *lead, queries, _ = results[0].shape
        lead = [1] * (LEAD - len(lead)) + lead
        numbers = [*lead, queries, key.shape[-2]]
        for handle in (*handles, *hidden):
            numbers += _steps(handle, (*lead, *_last_two(handle)))
        numbers.append(int(np.asarray(scale.value, np.float32).view(np.int32)))
        places = [h.address for h in (*handles, *hidden, *results)]
        if self._table is None:
            self._table = backend.table(())
        backend.enqueue(
            backend.kernel(source(problem), NAME), places, self._table,
            np.array([*[0] * len(places), *numbers], np.int64),
            (-(-queries // QUERIES) * GROUP, math.prod(lead)), (GROUP, 1),
        )  # fmt: skip
        return tuple(results)

    def _handle(self, x: Handle | Scalar) -> MemoryHandle | StridedHandle:
        if isinstance(x, Scalar):
            x = self._backend.upload(np.array(x.value, x.dtype.dtype))
        assert isinstance(x, MemoryHandle | StridedHandle), x
        return x


def _last_two(handle: Handle) -> tuple[int, int]:
    rows, columns = (1, 1, *handle.shape)[-2:]
    return rows, columns


def _steps(handle: MemoryHandle | StridedHandle, shape: Sequence[int]) -> list[int]:
    """Strides along axes that a handle is broadcast to."""
    own: list[int] = []
    step = 1
    for size in reversed(handle.shape):
        own.insert(0, step)
        step *= size
    strides = list(handle.strides) if isinstance(handle, StridedHandle) else own
    missing = len(shape) - len(strides)
    sizes = (*[1] * missing, *handle.shape)
    return [0 if n == 1 else s for n, s in zip(sizes, [*[0] * missing, *strides], strict=True)]


def _padded(columns: int) -> int:
    return -(-columns // SHARES) * SHARES


# The source ------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def source(problem: AttentionProblem) -> str:
    """The kernel, for any numbers of queries and keys and any strides."""
    of, back = rounded(problem.dtype)
    features, columns, keys = problem.features, _padded(problem.columns), problem.keys
    names = ["query", "key", "value", *(["mask"] if problem.mask else [])]
    buffers = [*names, "out", *(["lse"] if problem.lse else [])]
    at = {name: k for k, name in enumerate(buffers)}
    sizes = len(buffers)
    steps = {name: sizes + LEAD + 2 + k * (LEAD + 2) for k, name in enumerate(names)}
    numbers = sizes + LEAD + 2 + len(names) * (LEAD + 2) + 1
    places = "\n    ".join(
        f"__global const {'uint8_t' if problem.mask == 'bool' and name == 'mask' else of.stored} "
        f"*const {name} = (__global const void *)(memory{at[name]} + given.at[{at[name]}]);"
        for name in names
    )
    digits = "\n    ".join(
        f"const int64_t i{d} = rest % given.at[{sizes + d}]; rest /= given.at[{sizes + d}];"
        for d in reversed(range(LEAD))
    )
    begins = "\n    ".join(
        f"const int64_t {name}_at = "
        + " + ".join(f"i{d} * given.at[{steps[name] + d}]" for d in range(LEAD))
        + f", {name}_row = given.at[{steps[name] + LEAD}]"
        + f", {name}_column = given.at[{steps[name] + LEAD + 1}];"
        for name in names
    )
    return f"""{of.helpers}
typedef struct {{ int64_t at[{numbers}]; }} given_t;
static float widened({of.stored} x) {{ return {of.shown}; }}
static {of.stored} rounded(float x) {{ return {back}; }}
__attribute__((reqd_work_group_size({GROUP}, 1, 1)))
__kernel void {NAME}({"".join(f"__global uint8_t *memory{k}, " for k in range(len(buffers)))}
    __global const int64_t *table, const given_t given)
{{
    __local float queries[{QUERIES * (features + 1)}], turned[{features * (keys + 1)}];
    __local float values[{keys * columns}], shares[{QUERIES * (keys + 1)}], folded[{GROUP}];
    const int lane = get_local_id(0), row = lane / {SHARES}, part = lane % {SHARES};
    const int64_t first = get_group_id(0) * {QUERIES}, at = first + row;
    const int64_t rows = given.at[{sizes + LEAD}], count = given.at[{sizes + LEAD + 1}];
    const float scale = as_float((int)given.at[{numbers - 1}]);
    int64_t rest = get_group_id(1);
    {digits}
    {places}
    {begins}
    for (int i = lane; i < {QUERIES * features}; i += {GROUP}) {{
        const int64_t r = first + i / {features};
        queries[i + i / {features}] = r < rows
            ? widened(query[query_at + r * query_row + i % {features} * query_column]) : 0;
    }}
    float top = -INFINITY, total = 0, sums[{columns // SHARES}];
    for (int c = 0; c < {columns // SHARES}; c++)
        sums[c] = 0;
    const int64_t end = {f"min(count, first + {QUERIES})" if problem.causal else "count"};
    for (int64_t begin = 0; begin < end; begin += {keys}) {{
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = lane; i < {features * keys}; i += {GROUP}) {{
            const int64_t j = begin + i / {features};
            const int e = i % {features};
            turned[e * {keys + 1} + i / {features}] =
                j < count ? widened(key[key_at + j * key_row + e * key_column]) : 0;
        }}
        for (int i = lane; i < {columns * keys}; i += {GROUP}) {{
            const int64_t j = begin + i / {columns};
            const int c = i % {columns};
            values[i] = j < count && c < {problem.columns}
                ? widened(value[value_at + j * value_row + c * value_column]) : 0;
        }}
        barrier(CLK_LOCAL_MEM_FENCE);
        float score[{keys // SHARES}], most = -INFINITY;
        for (int j = 0; j < {keys // SHARES}; j++)
            score[j] = 0;
        for (int e = 0; e < {features}; e++) {{
            const float x = queries[row * {features + 1} + e];
            for (int j = 0; j < {keys // SHARES}; j++)
                score[j] = fma(x, turned[e * {keys + 1} + j * {SHARES} + part], score[j]);
        }}
        int seen = 0;
        for (int j = 0; j < {keys // SHARES}; j++) {{
            const int64_t k = begin + j * {SHARES} + part;
            if (at < rows && k < count{" && k <= at" if problem.causal else ""}) {{
                score[j] *= scale;
                {_masked(problem)}
            }}
        }}
        folded[lane] = most;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < {SHARES}; j++)
            most = fmax(most, folded[row * {SHARES} + j]);
        most = fmax(most, top);
        /* Where no key is seen yet every score is -inf, and so is their maximum. */
        const float level = isfinite(most) ? most : 0, before = isfinite(top) ? top : 0;
        const float kept = top == -INFINITY ? 0 : exp(before - level);
        float more = 0;
        for (int j = 0; j < {keys // SHARES}; j++) {{
            const float share = seen >> j & 1 ? exp(score[j] - level) : 0;
            more += share;
            /* No exponential is negative. */
            shares[row * {keys + 1} + j * {SHARES} + part] = seen >> j & 1 ? share : -1;
        }}
        total = fma(total, kept, more);
        top = most;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int c = 0; c < {columns // SHARES}; c++)
            sums[c] *= kept;
        for (int j = 0; j < {keys}; j++) {{
            const float share = shares[row * {keys + 1} + j];
            if (share < 0)
                continue;
            for (int c = 0; c < {columns // SHARES}; c++)
                sums[c] = fma(share, values[j * {columns} + c * {SHARES} + part], sums[c]);
        }}
    }}
    folded[lane] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    total = 0;
    for (int j = 0; j < {SHARES}; j++)
        total += folded[row * {SHARES} + j];
    if (at >= rows)
        return;
    const int64_t line = (int64_t)get_group_id(1) * rows + at;
    __global {of.stored} *const out = (__global void *)(memory{at["out"]} + given.at[{at["out"]}]);
    for (int c = 0; c < {columns // SHARES}; c++)
        if (c * {SHARES} + part < {problem.columns})
            out[line * {problem.columns} + c * {SHARES} + part] =
                rounded(sums[c] / (total == 0 ? 1 : total));
    {_lse(at["lse"]) if problem.lse else ""}
}}
"""


def _masked(problem: AttentionProblem) -> str:
    """Whether key k counts for query `at`, and its score."""
    place = "mask[mask_at + at * mask_row + k * mask_column]"
    noted = "seen |= 1 << j;\n                most = fmax(most, score[j]);"
    if not problem.mask:
        return noted
    if problem.mask == "bool":
        return f"if (!{place})\n                    continue;\n                {noted}"
    return f"score[j] += widened({place});\n                {noted}"


def _lse(number: int) -> str:
    return f"""__global float *const lse = (__global void *)(memory{number} + given.at[{number}]);
    if (part == 0)
        lse[line] = log(total) + (isfinite(top) ? top : 0);"""

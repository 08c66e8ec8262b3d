"""The kernels: one text for plain C, OpenCL C and CUDA C++, which differ in how a kernel begins.

A unit of work is a query of a head; in `flash_attention_keys` it is a key. Scores, values of one
query and one key at a time, stay in registers.
"""

from collections.abc import Callable, Sequence

from ingle.fusion.device import CustomKernel
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op

LONGEST = 256
"""Numbers of a head, at most: so many stay beside the processor."""

# In all languages: heads, L, S, E and whether it is causal are `args`, x[heads][L or S][E].
BODIES = {
    "flash_attention": (
        ("query", "key", "value"), ("out", "lse"), """
    const long head = unit / L, i = unit % L;
    float sums[LONGEST], top = -INFINITY, total = 0;
    for (long e = 0; e < E; e++)
        sums[e] = 0;
    const long seen = causal && i < S ? i + 1 : S;
    for (long j = 0; j < seen; j++) {
        float score = 0;
        for (long e = 0; e < E; e++)
            score += query[unit * E + e] * key[(head * S + j) * E + e];
        score /= ROOT((float)E);
        const float highest = score > top ? score : top;
        const float mended = EXP(top - highest), share = EXP(score - highest);
        total = total * mended + share;
        for (long e = 0; e < E; e++)
            sums[e] = sums[e] * mended + share * value[(head * S + j) * E + e];
        top = highest;
    }
    for (long e = 0; e < E; e++)
        out[unit * E + e] = sums[e] / total;
    lse[unit] = top + LOG(total);
"""),
    "flash_attention_queries": (
        ("query", "key", "value", "g", "lse", "level"), ("by_query",), """
    const long head = unit / L, i = unit % L;
    float sums[LONGEST];
    for (long e = 0; e < E; e++)
        sums[e] = 0;
    const long seen = causal && i < S ? i + 1 : S;
    for (long j = 0; j < seen; j++) {
        const long at = (head * S + j) * E;
        float score = 0, pull = 0;
        for (long e = 0; e < E; e++) {
            score += query[unit * E + e] * key[at + e];
            pull += g[unit * E + e] * value[at + e];
        }
        const float share = EXP(score / ROOT((float)E) - lse[unit]);
        const float flow = share * (pull - level[unit]) / ROOT((float)E);
        for (long e = 0; e < E; e++)
            sums[e] += flow * key[at + e];
    }
    for (long e = 0; e < E; e++)
        by_query[unit * E + e] = sums[e];
"""),
    "flash_attention_keys": (
        ("query", "key", "value", "g", "lse", "level"), ("by_key", "by_value"), """
    const long head = unit / S, j = unit % S;
    float keys[LONGEST], values[LONGEST];
    for (long e = 0; e < E; e++)
        keys[e] = values[e] = 0;
    for (long i = causal ? j : 0; i < L; i++) {
        const long row = head * L + i, at = row * E;
        float score = 0, pull = 0;
        for (long e = 0; e < E; e++) {
            score += query[at + e] * key[unit * E + e];
            pull += g[at + e] * value[unit * E + e];
        }
        const float share = EXP(score / ROOT((float)E) - lse[row]);
        const float flow = share * (pull - level[row]) / ROOT((float)E);
        for (long e = 0; e < E; e++) {
            keys[e] += flow * query[at + e];
            values[e] += share * g[at + e];
        }
    }
    for (long e = 0; e < E; e++) {
        by_key[unit * E + e] = keys[e];
        by_value[unit * E + e] = values[e];
    }
"""),
}  # fmt: skip
SIZES = ("heads", "L", "S", "E", "causal")


def c_source(name: str) -> str:
    """In C a kernel gets arrays of pointers and arguments, and a range of units."""
    inputs, outputs, body = BODIES[name]
    lines = [f"const long {size} = args[{n}];" for n, size in enumerate(SIZES)]
    lines += [f"const float *const {x} = pointers[{k}];" for k, x in enumerate(inputs)]
    lines += [f"float *const {x} = pointers[{k}];" for k, x in enumerate(outputs, len(inputs))]
    declared = "\n    ".join(lines)
    return f"""
#include <math.h>
#include <stdint.h>
#define EXP expf
#define LOG logf
#define ROOT sqrtf
#define LONGEST {LONGEST}

void {name}(void **pointers, const int64_t *args, int64_t begin, int64_t end, int64_t worker)
{{
    {declared}
    (void)heads, (void)worker;
    for (long unit = begin; unit < end; unit++) {{
{body}    }}
}}
"""


def opencl_source(name: str) -> str:
    """In OpenCL C it gets each as a parameter of its own; a work item is a unit."""
    inputs, outputs, body = BODIES[name]
    parameters = [f"__global const float *{x}" for x in inputs]
    parameters += [f"__global float *{x}" for x in outputs]
    parameters += [f"const long {size}" for size in SIZES]
    return f"""
#define EXP exp
#define LOG log
#define ROOT sqrt
#define LONGEST {LONGEST}

__kernel void {name}({", ".join(parameters)})
{{
    const long unit = get_global_id(0);
{body}}}
"""


def cuda_source(name: str) -> str:
    """In CUDA C++ a thread is a unit, of those from `begin` to `end`."""
    inputs, outputs, body = BODIES[name]
    parameters = [f"const float *{x}" for x in inputs]
    parameters += [f"float *{x}" for x in outputs]
    parameters += [f"long long {size}" for size in (*SIZES, "begin", "end")]
    return f"""
#define EXP expf
#define LOG logf
#define ROOT sqrtf
#define INFINITY __int_as_float(0x7f800000)
#define LONGEST {LONGEST}

extern "C" __global__ void {name}({", ".join(parameters)})
{{
    const long unit = begin + blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (unit >= end)
        return;
{body}}}
"""


WRITERS = {"c": c_source, "opencl": opencl_source, "cuda": cuda_source}


def kernel_of(language: str) -> Callable[[Op, Sequence[Aval]], CustomKernel | None]:
    """What `register_kernel` takes: from an op and its operands to the kernel."""

    def written(op: Op, avals: Sequence[Aval]) -> CustomKernel | None:
        query, key = avals[0], avals[1]
        heads, length, size = query.shape
        if query.dtype.name != "float32" or size > LONGEST or not key.shape[1]:
            return None  # the body runs in its place
        name = op.operation.name
        units = heads * (key.shape[1] if name == "flash_attention_keys" else length)
        args = (heads, length, key.shape[1], size, int(op.attributes["causal"]))
        return CustomKernel(WRITERS[language](name), args, units, name)

    return written

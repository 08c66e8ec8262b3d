"""One kernel for many launches of a nest: a launch takes longer than an update of a bias.

The launches' operands come one by one, since pointers may not lie in memory of OpenCL 1.2; a table
says where the arguments of each begin, and with which work item it ends. What a work item computes
is what it computes in a launch alone, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES, Nest, NestCall
from ingle.fusion.device.opencl import MEMBER, rendered

MANY = "many"


class Span(NamedTuple):
    """What a launch touches of an operand.

    Attributes:
        first, last: bytes from its place; `last` is behind the last one.
        written: whether it is an output.
    """

    first: int
    last: int
    written: bool


def at_once(nest: Nest, parameters: int) -> int:
    """How many launches fit into a kernel that takes so many bytes of arguments; 1 for none."""
    gathers = any(i.name == "gather" for stage in nest.stages for i in stage.code)
    if gathers or any(operand.beyond is not None for operand in nest.operands):
        return 1  # where it reads or writes is known in the kernel alone
    others = 2 + len(nest.scalars)
    return max(1, (parameters // 8 - others) // (2 * len(nest.operands)))


def spans_of(call: NestCall) -> tuple[Span, ...]:
    """What a call touches of each of its operands."""
    found = []
    for operand, strides in zip(call.nest.operands, call.strides, strict=True):
        ends = [(n - 1) * s for n, s in zip(call.sizes, strides, strict=True)]
        size = SIZES[operand.dtype]
        first, last = sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends) + 1
        found.append(Span(first * size, last * size, operand.output))
    return tuple(found)


def apart(places: Sequence[Sequence[int]], spans: Sequence[Sequence[Span]]) -> bool:
    """Whether no launch writes where another one reads or writes.

    Args:
        places: the address of each operand of each launch.
        spans: what it touches.
    """
    touched = sorted(
        (place + span.first, place + span.last, number, span.written)
        for number, (own, of) in enumerate(zip(places, spans, strict=True))
        for place, span in zip(own, of, strict=True)
    )
    end, owner, several, written = -1, -1, False, False
    for first, last, number, writes in touched:
        if first >= end:  # nothing before reaches here
            end, owner, several, written = last, number, False, writes
            continue
        end = max(end, last)
        several, written = several or number != owner, written or writes
        if several and written:
            return False
    return True


@lru_cache(maxsize=256)
def many_source(nest: Nest, count: int) -> str:
    """The kernel of so many launches of a flat nest; a work item takes a unit of one of them."""
    operands, numbers = len(nest.operands), len(nest.scalars)
    places = operands * count
    buffers = "".join(f"__global uint8_t *buffer{k}, " for k in range(places))
    scalars = ", ".join(f"given.at[{places + n}]" for n in range(numbers)) or "0"
    calls = []
    for n in range(count):
        own = "".join(
            f"buffer{k} + given.at[{k}], " for k in range(n * operands, (n + 1) * operands)
        )
        begin = f"table[start + {2 * n - 1}]" if n else "0"
        calls.append(f"""if (item < table[start + {2 * n + 1}]) {{
        member({own}table + table[start + {2 * n}], numbers, item - {begin}, item - {begin} + 1);
        return;
    }}""")
    return f"""{rendered(nest, "member", MEMBER)}
typedef struct {{ int64_t at[{places + numbers + 1}]; }} given_t;
__kernel void {MANY}({buffers}__global const int64_t *table, const given_t given)
{{
    const int64_t item = get_global_id(0), start = given.at[{places + numbers}];
    const int64_t numbers[] = {{{scalars}}};
    {chr(10).join(calls)}
}}
"""

"""One kernel for many launches of a nest: a launch takes longer than an update of a bias.

The launches' operands come one by one, since pointers may not lie in memory of OpenCL 1.2; a table
says where the arguments of each begin, and with which work item it ends. What a work item computes
is what it computes in a launch alone, so no bit changes.
"""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.executables import joins
from ingle.fusion.device.kernels import Nest
from ingle.fusion.device.opencl import MEMBER, rendered

MANY = "many"


def at_once(nest: Nest, parameters: int) -> int:
    """How many launches fit into a kernel that takes so many bytes of arguments; 1 for none."""
    if not joins(nest):
        return 1
    others = 2 + len(nest.scalars)
    return max(1, (parameters // 8 - others) // (2 * len(nest.operands)))


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

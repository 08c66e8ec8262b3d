"""The entries of operations that templates compute whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ingle.fusion.device import WholeCall
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op
from ingle.tensor.ops.quantization.products import QUANTIZED_LINEAR

from ..attention import calls as attention
from ..attention.launches import attention_entries
from ..attention.problem import problem_of as attention_problem
from ..codes import calls as codes
from ..codes.launches import codes_entries
from ..codes.problem import problem_of as codes_problem
from ..matmul.plan import Contraction
from ..threads.pool import thread_count


def entries_of(call: WholeCall) -> Contraction:
    """The entries of an operation within a plan, of which `launches_whole` has said that there are.

    Those of attention take a number from each run (`SCALE_AT`), if it is given one.
    """
    if call.op.operation is QUANTIZED_LINEAR:
        return codes.entries_of(call)
    return attention.entries_of(call)


def entries_in_order(op: Op, avals: Sequence[Aval]) -> Callable[[], Contraction] | None:
    """What makes the entries of an operation on operands in C order; None for what no template
    takes. Attention's scale is 0."""
    products = codes_problem(op, avals)
    if products is not None:
        return partial(codes_entries, products)
    attended = attention_problem(op, avals)
    if attended is not None:
        return partial(attention_entries, attended, 0, thread_count())
    return None

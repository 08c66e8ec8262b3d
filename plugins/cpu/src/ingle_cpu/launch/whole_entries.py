"""The entries of operations that templates compute whole."""

from __future__ import annotations

from ingle.fusion.device import WholeCall
from ingle.tensor.ops.quantization.products import QUANTIZED_LINEAR

from ..attention import calls as attention
from ..codes import calls as codes
from ..matmul.plan import Contraction


def entries_of(call: WholeCall) -> Contraction:
    """The entries of an operation within a plan, of which `launches_whole` has said that there are.

    Those of attention take a number from each run (`SCALE_AT`), if it is given one.
    """
    if call.op.operation is QUANTIZED_LINEAR:
        return codes.entries_of(call)
    return attention.entries_of(call)

"""Values between kernels that lie where a kernel finds what nobody needs behind it.

A kernel that reads each place of a value before it writes the same place of another may write into
the memory of the first, if that is read for the last time: the gradient of a softmax where its
logits lay. Which kernels do so is what donations ask, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..kernel.code import SIZES
from ..lowering.nests import NestCall
from .arena import LiveBuffer
from .in_place import in_place


def written_over(
    spans: Sequence[LiveBuffer], calls: Sequence[object]
) -> tuple[list[LiveBuffer], dict[int, int]]:
    """Spans of which some take those of others in, and for what lies in another value's memory the
    value whose span that is.

    Args:
        spans: of the values between calls.
        calls: in the order that spans count. Nests alone write over what they read: what else does
            might write before it has read all.
    """
    at = {span.value: span for span in spans}
    dying: dict[int, list[LiveBuffer]] = {}
    for span in spans:
        dying.setdefault(span.last, []).append(span)
    over: dict[int, int] = {}
    for span in sorted(spans, key=lambda s: s.first):
        call = calls[span.first]
        if isinstance(call, NestCall):
            for old in dying.get(span.first, ()):
                if old.value in at and old.nbytes == span.nbytes and _fits(call, old, span):
                    over[span.value] = old.value
                    del at[old.value]  # taken
                    break
    return _joined(spans, over)


def _fits(call: NestCall, old: LiveBuffer, new: LiveBuffer) -> bool:
    """Whether a nest may write a value over one that it reads."""
    if call.nest.scattered or any(o.row_base is not None for o in call.nest.operands):
        return False
    operands = list(zip(call.arguments, call.nest.operands, strict=True))
    sizes = {SIZES[o.dtype] for a, o in operands if a.root in (old.value, new.value)}
    reads = [a for a, _ in operands if a.root == old.value and not a.output]
    return bool(reads) and len(sizes) == 1 and in_place(call, old.value, new.value)


def _joined(
    spans: Sequence[LiveBuffer], over: Mapping[int, int]
) -> tuple[list[LiveBuffer], dict[int, int]]:
    """One span for each chain of values that follow one another in the same memory."""
    first = dict[int, int]()
    for value in over:
        root = value
        while root in over:
            root = over[root]
        first[value] = root
    last: dict[int, int] = {}
    for span in spans:
        root = first.get(span.value, span.value)
        last[root] = max(span.last, last.get(root, span.last))
    kept = [span._replace(last=last[span.value]) for span in spans if span.value not in first]
    return kept, first

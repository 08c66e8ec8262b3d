"""Where half types are rounded: at the end of a kernel, or after each of its operations."""

from __future__ import annotations

from ..kernel.code import CodeBuilder
from ..support.settings import is_exact


def code_builder() -> CodeBuilder:
    """For the code of one stage of a kernel.

    With `INGLE_FUSION_EXACT=1` a fused kernel rounds where its operations alone would, so that a
    difference between the two is a mistake and no gain in accuracy.
    """
    return CodeBuilder(exact=is_exact())

"""Where half types are rounded: at the end of a kernel, or after each of its operations."""

from __future__ import annotations

import os

from ..kernel.code import CodeBuilder


def code_builder() -> CodeBuilder:
    """For the code of one stage of a kernel.

    With `INGLE_FUSION_EXACT=1` a fused kernel rounds where its operations alone would, so that a
    difference between the two is a mistake and no gain in accuracy.
    """
    return CodeBuilder(exact=is_exact())


def is_exact() -> bool:
    """Whether each operation of a kernel rounds as it would alone."""
    return os.environ.get("INGLE_FUSION_EXACT") == "1"

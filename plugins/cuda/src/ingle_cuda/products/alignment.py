"""Products of half types whose rows begin at multiples of 16 bytes.

The library's fast kernels move 16 bytes at once, so that they want each row of a matrix to begin at
a multiple of them; for others it has kernels of a fifth of the rate. So an operand whose rows
lie otherwise, such as logits of 50,257 words, is copied into longer rows first, which takes as long
as memory does, and a result is written into longer rows from which its epilogue reads. What is
added to a row that is summed over is zero in both operands, so that no sum changes its value.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.fusion.device.kernels import FEWEST_ALIGNED, HALVES, LINE, aligned_size

from .cublas import LARGEST, Operand, Product


def aligned(
    product: Product, row: int, steps: Sequence[int], shifted: tuple[bool, bool, bool]
) -> tuple[Product, bool]:
    """The product on rows that begin at multiples of 16 bytes; itself where they do, or are few.

    Args:
        product: of operands as they lie.
        row, steps: elements of the result from row to row and along the batch; 0 where an epilogue
            reads it from other memory, whose rows may be longer.
        shifted: whether A, B and the result begin beside a multiple of 16 bytes.

    Returns:
        The product, whose sizes are those of the copies, and whether its result is to go to memory
        with rows of these sizes, as it does not lie well where it belongs.
    """
    batch, m, n, k, a, b = product[:6]
    if product.dtype not in HALVES or min(m, n, k) < FEWEST_ALIGNED or a.copied or b.copied:
        return product, False
    if max(m, n, k) > LARGEST - LINE:
        return product, False
    terms = aligned_size(k) if not a.transposed or b.transposed else k
    free = not row or shifted[2] or not _lies(batch, n, row, steps)
    columns = aligned_size(n) if free else n
    rows = aligned_size(m) if free and a.transposed else m
    left = _padded(a, batch, (rows, terms), (m, k), shifted[0])
    right = _padded(b, batch, (terms, columns), (k, n), shifted[1])
    return product._replace(m=rows, n=columns, k=terms, a=left, b=right), free


def _lies(batch: tuple[int, ...], length: int, row: int, steps: Sequence[int]) -> bool:
    """Whether all lines of a matrix begin and end at multiples of 16 bytes."""
    along = [step for step, size in zip(steps, batch, strict=True) if size > 1]
    return not any(n % LINE for n in (length, row, *along))


def _padded(
    x: Operand, batch: tuple[int, ...], sizes: tuple[int, int], own: tuple[int, int],
    shifted: bool,
) -> Operand:  # fmt: skip
    """An operand of other sizes than its own, or whose lines lie otherwise, as a copy.

    Args:
        sizes, own: rows and columns of the copy, and of itself.
    """
    lines, length = sizes[::-1] if x.transposed else sizes
    if sizes == own and not shifted and _lies(batch, length, x.leading, x.steps):
        return x
    length = aligned_size(length)
    steps, count = [], lines * length
    for size, step in zip(reversed(batch), reversed(x.steps), strict=True):
        steps.append(count if step else 0)  # what repeats is copied once
        count *= size if step else 1
    return Operand(x.transposed, length, True, (*reversed(steps),), (lines, x.leading, x.steps))

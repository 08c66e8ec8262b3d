"""Products of many matrices by the same one, as a single product of all of their rows.

A stack of matrices times a matrix, `x @ w` of three axes, is one product of more rows, if these lie
at equal distances through all matrices. It has fewer tiles that are not full, and one epilogue.
"""

from __future__ import annotations

from ingle.fusion.device import has_sizes
from ingle.fusion.device.kernels import ContractionCall, Windows

from .blocking import sums_alike
from .problem import Problem


def problem_of(call: ContractionCall) -> Problem:
    """What a call computes, without its epilogue; images that lie as matrices are such."""
    windows, b = call.windows, call.b.strides
    if windows is not None and _is_matrix(call, windows):
        b, windows = (*b[:-2], windows.channel, 1), None
    return Problem(
        call.dtype, call.b_dtype, call.batch, *call.sizes, call.a.strides, b, windows
    )  # fmt: skip


def _is_matrix(call: ContractionCall, windows: Windows) -> bool:
    """Whether windows are single elements, all of an image, which lie one after the other.

    Numbers of other dtypes would be summed in another order than those of several images, which are
    windows of one image more.
    """
    if windows.over_places or windows.turns != 1 or call.b_dtype not in ("float32", "float64"):
        return False
    if has_sizes((call.sizes, windows)) or windows.image != windows.places:
        return False
    ones, apart = (1,) * len(windows.kernel), 1
    if windows.kernel != ones or windows.steps != ones or any(windows.start):
        return False
    for size, stride in zip(reversed(windows.image), reversed(windows.strides), strict=True):
        if size > 1 and stride != apart:
            return False
        apart *= size
    return 1 < apart <= windows.channel


def with_rows_joined(call: ContractionCall) -> ContractionCall:
    """The call with batch axes as rows, as many of the inner ones as can be, and the same bits.

    An epilogue that counts rows, or the matrices of a batch, keeps them apart.
    """
    if call.windows is not None or any(i.name == "index" and i.value >= 0 for i in call.code):
        return call
    joined = call
    while joined.batch[-1] > 1:
        more = _joined(joined)
        if more is None:
            break
        joined = more
    return joined if sums_alike(problem_of(call), problem_of(joined)) else call


def _joined(call: ContractionCall) -> ContractionCall | None:
    """The innermost batch axis as rows; None where it cannot be."""
    m, n, k = call.sizes
    batch, row = -3, -2
    lying = [call.a, *call.operands]
    together = all(m == 1 or o.strides[batch] == m * o.strides[row] for o in lying)
    if not m or call.b.strides[batch] != 0 or not together:
        return None
    last = len(call.batch) == 1  # of which there is one at least

    def without(strides: tuple[int, ...], of_row: int) -> tuple[int, ...]:
        kept = (0,) if last else strides[:batch]
        return (*kept, of_row, strides[-1])

    moved = [
        o._replace(strides=without(o.strides, o.strides[batch if m == 1 else row])) for o in lying
    ]
    return call._replace(
        batch=(1,) if last else call.batch[:-1],
        sizes=(m * call.batch[-1], n, k),
        a=moved[0],
        b=call.b._replace(strides=without(call.b.strides, call.b.strides[row])),
        operands=tuple(moved[1:]),
    )

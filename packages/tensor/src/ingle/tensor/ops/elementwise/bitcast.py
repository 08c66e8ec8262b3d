"""The same bits read as another dtype of the same size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, run1
from ...dtypes import DType, uint8, uint16, uint32, uint64
from ...errors import DTypeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import dtype_argument

if TYPE_CHECKING:
    from ...tensor import Tensor


def bitcast(x: TensorLike, dtype: object, /) -> Tensor:
    """The bits of each element read as a dtype of the same size; has no gradient.

    Raises:
        DTypeError: the sizes differ, or one of the dtypes is bool or complex, or has less than 8
            bits (`pack` and `unpack` are for these).

    >>> import ingle.tensor as it
    >>> it.bitcast(it.asarray([1.0]), "uint32").tolist() == [0x3F800000]
    True
    """
    return run1(BITCAST.op(dtype=dtype_argument(dtype, "bitcast")), handle_of(x, "bitcast"))


def _rule(x: Aval, *, dtype: DType) -> Aval:
    bad = [d for d in (x.dtype, dtype) if d.kind in ("bool", "complex")]
    if bad or x.dtype.bits != dtype.bits or dtype.bits < 8:
        raise DTypeError(
            f"bitcast: x and dtype must be integers or floats of one size, of whole bytes, got "
            f"{x.dtype} ({x.dtype.bits} bits) and {dtype} ({dtype.bits} bits)"
        )
    return Aval(x.shape, dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind not in ("bool", "complex"):
        to = _UNSIGNED[draw.dtype.itemsize]
        for shape in ((3, 5), (), (0,)):
            yield Sample((draw.array(shape), to), gradient=False, exact=True)


def _reference(x: Any, dtype: DType) -> Any:
    return x.view(dtype.dtype)


BITCAST = Operation(
    "bitcast",
    tensors=("x",),
    statics=("dtype",),
    rule=_rule,
    traits=Traits("elementwise", family="cast", storage=True),
    public=bitcast,
    samples=_samples,
    reference=_reference,
)


_UNSIGNED = {1: uint8, 2: uint16, 4: uint32, 8: uint64}

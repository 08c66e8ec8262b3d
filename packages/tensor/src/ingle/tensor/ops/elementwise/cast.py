"""Changing the dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...contract import Aval, Handle
from ...device import Device
from ...dispatch import TensorLike, handle_of, run1, wrap
from ...dtypes import DType, complex128, float32, float64, int8, int32, uint8
from ...errors import DTypeError
from ...operation import Laws, Operation, Traits
from ...sample import Draw, Sample
from .._rules import dtype_argument

if TYPE_CHECKING:
    from ...tensor import Tensor


def astype(
    x: TensorLike,
    dtype: object,
    /,
    *,
    copy: bool = True,
    device: Device | str | None = None,
) -> Tensor:
    """The values in another dtype. Floats become integers towards zero; complex stays complex.

    Rounding to a narrower float is to the nearest, ties to even. Beyond the range, an integer dtype
    keeps an integer's lowest bits. A float is cut to an integer of 32 bits, for uint32 and those of
    64 bits to one of 64, whose lowest bits are kept: -1.0 is 255 as uint8. What has no place
    there, NaN included, counts as the smallest such integer, on every device and processor;
    float8_e4m3fn, which has no infinity, has NaN beyond 464, and float8_e5m2 infinity, so clip
    first where that matters, as `quantize` does. What is cast to a storage dtype is a constant for
    gradients.

    Args:
        x: a tensor.
        dtype: a `DType`, a name such as `"float32"`, a NumPy dtype, or `float`, `int`, `bool`.
        copy: accepted for the standard's sake; tensors never change, so nothing is copied
            when the dtype is the same.
        device: where to put the result; where `x` is if not given.

    >>> import ingle.tensor as it
    >>> it.astype(it.asarray([1.7, -1.7]), "int32").tolist()
    [1, -1]
    >>> it.astype(it.asarray([1.3, 500.0]), "float8_e4m3fn").tolist()
    [1.25, nan]
    """
    handle = handle_of(x, "astype")
    to = dtype_argument(dtype, "astype")
    out = wrap(handle) if to is handle.dtype else _cast(handle, to)
    return out if device is None else out.to_device(device)


def _rule(x: Aval, *, dtype: DType) -> Aval:
    if x.dtype.is_complex and not (dtype.is_complex or dtype.kind == "bool"):
        raise DTypeError(
            f"astype: x must not be {x.dtype} for dtype {dtype}, which would drop the imaginary "
            "part; take real(x) first"
        )
    return Aval(x.shape, dtype)


def _vjp(g: Tensor, x_aval: Aval) -> Tensor:
    if g.dtype.is_complex and not x_aval.dtype.is_complex:
        from .complex import real

        g = real(g)
    return astype(g, x_aval.dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    for to in (float32, float64):
        yield Sample((draw.array((3, 5)), to))
    if draw.dtype.is_complex:
        yield Sample((draw.array((2, 3)), complex128))
    else:
        # No integer stands for NaN or an infinity.
        yield Sample((draw.array((8,)), int32), gradient=False, special=False)
        wide = draw.array((8,), low=-300, high=300)
        yield Sample((wide, uint8), gradient=False, special=False, label="lowest bits")


def _reference(x: Any, dtype: DType) -> Any:
    return x.astype(dtype.dtype)


ASTYPE = Operation(
    "astype",
    tensors=("x",),
    statics=("dtype",),
    rule=_rule,
    traits=Traits(
        "elementwise", family="cast", storage=True, cost="cheap", laws=Laws(converts=True)
    ),
    vjp={"x": _vjp},
    public=astype,
    samples=_samples,
    reference=_reference,
)


def _cast(x: Handle, to: DType) -> Tensor:
    if x.dtype.is_storage and to.is_storage:
        # Kernels never see two storage dtypes at once.
        return astype(run1(ASTYPE.op(dtype=between(x.dtype, to)), x), to)
    return run1(ASTYPE.op(dtype=to), x)


def between(a: DType, b: DType) -> DType:
    """A dtype that computes and has all values of two storage dtypes."""
    return float32 if "float" in (a.holds, b.holds) else int8

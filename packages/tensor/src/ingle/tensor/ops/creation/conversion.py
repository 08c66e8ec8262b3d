"""Tensors from numbers, lists, arrays and what other libraries hold."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ...device import Device, backend_of
from ...dispatch import handle_of, is_sparse, wrap
from ...dlpack import imported, on_host, place_name, place_of
from ...dtypes import (
    DType,
    as_dtype,
    default_complex,
    default_float,
    default_int,
    float64,
    from_numpy_dtype,
    int64,
    integer_range,
    uint64,
)
from ...errors import ArgumentError, DTypeError, OperandError
from ...followed import is_followed, plain
from ..elementwise.cast import astype, between
from ..movement.joining import stack
from ..movement.shapes import reshape
from .filled import full

if TYPE_CHECKING:
    from ...contract import Backend, Handle
    from ...tensor import Tensor


def asarray(
    obj: Any,
    /,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of a number, nested lists, an array of any library, or another tensor.

    Python floats get the default float dtype and integers the default integer dtype; arrays keep
    theirs. The values are copied to the device.

    Args:
        obj: what to make a tensor of: besides numbers, lists and NumPy arrays whatever has
            `__dlpack__` or `__array__` (PyTorch, JAX, CuPy, pandas) or shows a buffer. Lists of
            tensors are stacked.
        dtype: the dtype to cast to.
        device: where to put it; the default device, or where `obj` is, if not given.
        copy: False asks for no copy and raises `ArgumentError` where one is needed. The tensor then
            shares the memory of an array, which nobody may write to any more; Ingle never does.

    Raises:
        OperandError: `obj` is ragged, masked, or holds something that is no number; or it is on
            another kind of device, and no `device` says that it shall be copied.
        DTypeError: a number does not fit the dtype.

    >>> import ingle.tensor as it
    >>> it.asarray([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    to = None if dtype is None else as_dtype(dtype)
    if _is_tensor(obj):
        return _of_tensor(obj, to, device, copy)
    if isinstance(obj, (list, tuple)) and holds_tensors(obj):
        if copy is False:
            raise ArgumentError("asarray: copy=False, but stacking a list of tensors copies them")
        return _of_tensor(_stacked(obj), to, device, copy)
    if copy is not False and holds_followed(obj):
        return _of_numbers(obj, to, device)
    if hasattr(obj, "__dlpack__") and not isinstance(obj, np.ndarray):
        _refuse_elsewhere(obj, "asarray", device)
    backend = backend_of(device)
    if copy is False:
        return wrap(_adopted("asarray", backend, obj, to))
    return wrap(backend.upload(_host_array(obj, to)))


def staged(array: np.ndarray, device: Device | str | None = None) -> Tensor:
    """A tensor of a host array, as `asarray` makes it; nobody waits for the copy where the device
    offers that (the capability `stage`)."""
    backend = backend_of(device)
    upload = getattr(backend, "stage", backend.upload)
    return wrap(upload(_host_array(array, None)))


def from_dlpack(
    x: Any, /, *, device: Device | str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor of what another library exports through DLPack.

    The values are copied, and so cannot change under the tensor. With `copy=False` they are read
    where they are, in the producer's memory, which lives on as long as the tensor does.

    Args:
        x: an object with `__dlpack__` and `__dlpack_device__`.
        device: where to put it; the default device if not given. Values of another kind of device
            are copied through the host only if this says where to.
        copy: False asks for no copy and raises `ArgumentError` where the device needs one. The
            tensor then shares memory that nobody may write to any more; Ingle never does.

    Raises:
        OperandError: `x` does not speak DLPack, or its device or dtype cannot be read here.

    >>> import numpy as np
    >>> import ingle.tensor as it
    >>> it.from_dlpack(np.ones(2)).tolist()
    [1.0, 1.0]
    """
    if _is_tensor(x):
        return _moved(wrap(handle_of(x, "from_dlpack")).detach(), device, copy)
    if not hasattr(x, "__dlpack__"):
        raise OperandError(
            f"from_dlpack: {type(x).__name__} has no __dlpack__; use asarray for lists and numbers"
        )
    backend = backend_of(device)
    take_over = getattr(backend, "from_dlpack", None)
    if take_over is not None:
        return wrap(take_over(x, copy=copy))
    _refuse_elsewhere(x, "from_dlpack", device)
    if copy is False:
        return wrap(_adopted("from_dlpack", backend, x, None))
    return wrap(backend.upload(_native(_exported(x, "from_dlpack"))))


def _of_tensor(
    obj: Any, to: DType | None, device: Device | str | None, copy: bool | None
) -> Tensor:
    x = wrap(handle_of(obj, "asarray", "obj"))
    out = x if device is None else x.to_device(device)
    out = out if to is None else astype(out, to)
    if copy is not False:
        return out
    if out._handle is not x._handle:
        raise ArgumentError(
            f"asarray: copy=False, but {x.dtype} on {x.device} is not {out.dtype} on {out.device}"
        )
    # Tensors never change: only as one Python object do two names both see `x[i] = v`.
    return obj if type(obj) is type(x) else out


def holds_followed(obj: Any) -> bool:
    """Whether it is, or nested lists hold, a number that a recording follows."""
    if isinstance(obj, (list, tuple)):
        return any(map(holds_followed, obj))
    return is_followed(obj)


def _of_numbers(obj: Any, to: DType | None, device: Device | str | None) -> Tensor:
    """A tensor of numbers, each of which may be another one in later runs."""
    like = _host_array(_plain_lists(obj), to)  # says what is wrong with them, too
    dtype = from_numpy_dtype(like.dtype)
    made = [
        _of_number(functools.reduce(operator.getitem, place, obj), dtype, device)
        for place in np.ndindex(like.shape)
    ]
    return reshape(stack(made), like.shape) if like.shape else made[0]


def _of_number(number: Any, to: DType, device: Device | str | None) -> Tensor:
    whole = isinstance(number, (int, np.integer))
    if to.kind == "bool" or (to.holds in ("signed", "unsigned") and not whole):
        return astype(full((), number, dtype=int64 if whole else float64, device=device), to)
    return full((), number, dtype=to, device=device)


def _plain_lists(obj: Any) -> Any:
    return [_plain_lists(x) for x in obj] if isinstance(obj, (list, tuple)) else plain(obj)


def _moved(x: Tensor, device: Device | str | None, copy: bool | None) -> Tensor:
    out = x if device is None else x.to_device(device)
    if copy is False and out is not x:
        raise ArgumentError(
            f"from_dlpack: copy=False, but the tensor is on {x.device} and not on {out.device}"
        )
    # Values never change, so that two tensors may share them; `x += y` rebinds only one.
    return wrap(out._handle)


def _adopted(name: str, backend: Backend, obj: Any, to: DType | None) -> Handle:
    """A handle of an array's own memory."""
    adopt = getattr(backend, "adopt", None)
    if adopt is None:
        raise ArgumentError(f"{name}: copy=False, but {backend.device} copies what it imports")
    values = _shared(obj, name)
    if _cast(values, to) is not values:
        raise ArgumentError(
            f"{name}: copy=False, but {values.dtype} has to be cast to "
            f"{from_numpy_dtype(values.dtype) if to is None else to}"
        )
    return adopt(values)  # type: ignore[no-any-return]


def _shared(obj: Any, name: str) -> np.ndarray:
    """An array of the very memory that an object shows."""
    if isinstance(obj, np.ndarray):
        return _unmasked(obj)
    if hasattr(obj, "__dlpack__"):
        return _exported(obj, name, copy=False)
    try:
        if hasattr(obj, "__array__") or hasattr(obj, "__array_interface__"):
            return np.asarray(obj, copy=False)
        return np.asarray(memoryview(obj))
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{name}: copy=False, but this {type(obj).__name__} has no memory to share; "
            "leave copy out"
        ) from None


def _unmasked(array: np.ndarray) -> np.ndarray:
    # Who has one has loaded NumPy's module of them; loading it takes longer than most programs'
    # first tensor, and a handler of signals that comes meanwhile would find half of it.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    if isinstance(array, masked):
        raise OperandError(
            "asarray: this array is masked, and tensors have no masks; fill it with "
            "array.filled(value), and keep array.mask beside it"
        )
    return array


def _is_tensor(obj: object) -> bool:
    return hasattr(obj, "_handle") or hasattr(type(obj), "__ingle_tensor__")


def holds_tensors(obj: list[Any] | tuple[Any, ...]) -> bool:
    """Whether nested lists hold a tensor or a cell."""
    return any(holds_tensors(e) if isinstance(e, (list, tuple)) else _is_tensor(e) for e in obj)


def _stacked(obj: list[Any] | tuple[Any, ...]) -> Tensor:
    return stack([asarray(e) for e in obj])


def _host_array(obj: Any, to: DType | None) -> np.ndarray:
    if isinstance(obj, (np.ndarray, np.generic)):
        return _cast(np.asarray(_unmasked(obj) if isinstance(obj, np.ndarray) else obj), to)
    if hasattr(obj, "__dlpack__"):
        return _cast(_exported(obj, "asarray"), to)
    try:
        values = np.asarray(obj)
    except (ValueError, TypeError, RuntimeError) as error:
        raise OperandError(f"asarray: cannot make a tensor of this: {error}") from None
    if values.dtype.kind == "O":
        if is_sparse(obj):
            raise OperandError(
                f"asarray: {type(obj).__name__} is sparse, as no tensor is: give its toarray()"
            )
        raise OperandError(
            f"asarray: cannot make a tensor of {type(obj).__name__}: its elements are no numbers, "
            "or too large for 64 bits"
        )
    if hasattr(obj, "__array__") or hasattr(obj, "__array_interface__"):
        return _cast(values, to)
    if to is uint64 and values.dtype.kind == "f":
        values = _whole_again(obj, values)
    return _cast(values, to or _python_dtype(values), exact=True)


def _whole_again(obj: Any, values: np.ndarray) -> np.ndarray:
    """Integers of which NumPy made floats, since int64 holds some and uint64 the others."""
    numbers = np.asarray(obj, object)
    if not all(isinstance(n, (int, np.integer)) for n in numbers.flat):
        return values
    whole = [int(n) for n in numbers.flat]  # NumPy's own integers would wrap
    try:
        return np.array(whole, np.uint64).reshape(numbers.shape)
    except OverflowError:
        low = min(whole)
        raise DTypeError(
            f"asarray: the number {low if low < 0 else max(whole)} does not fit uint64 "
            "(0 to 18446744073709551615); ask for a wider dtype"
        ) from None


def _python_dtype(values: np.ndarray) -> DType | None:
    """The default dtype of Python's numbers, which NumPy made 64 bits wide."""
    if not values.size or values.dtype.kind == "f":
        return default_float()
    return {"i": default_int, "c": default_complex}.get(values.dtype.kind, lambda: None)()


def _exported(obj: Any, name: str, *, copy: bool | None = None) -> np.ndarray:
    """What another library exports, on the host; with `copy=False` its own memory."""
    try:
        return imported(obj, copy=copy)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if hasattr(obj, "__array__") and on_host(place_of(obj)):
            with contextlib.suppress(TypeError, RuntimeError, ValueError):
                return np.asarray(obj, copy=copy)
        raise OperandError(
            f"{name}: cannot read this {type(obj).__module__}.{type(obj).__name__}: {error}. "
            "Detach it from its graph, move it to the host, or cast it first"
        ) from None


def _refuse_elsewhere(obj: Any, name: str, device: Device | str | None) -> None:
    """Raises where values would cross from another device without having been asked to."""
    place = place_of(obj)
    if device is None and not on_host(place):
        here = backend_of(None).device
        raise OperandError(
            f"{name}: this {type(obj).__module__}.{type(obj).__name__} is on {place_name(place)}, "
            f"which {here} cannot read. Say device={str(here)!r} to have it copied there through "
            "the host, or choose a device of its kind"
        )


def _cast(values: np.ndarray, to: DType | None, exact: bool = False) -> np.ndarray:
    values = _native(values)
    if to is None or values.dtype == to.dtype:
        return values
    if values.dtype.kind == "c" and not (to.is_complex or to.kind == "bool"):
        raise DTypeError(
            f"asarray: {values.dtype} to {to} would drop the imaginary part; take its real part"
        )
    if exact and to.holds in ("signed", "unsigned") and values.dtype.kind in "iu" and values.size:
        least, most = integer_range(to)
        low, high = int(values.min()), int(values.max())
        if low < least or high > most:
            raise DTypeError(
                f"asarray: the number {low if low < least else high} does not fit {to} "
                f"({least} to {most}); ask for a wider dtype"
            )
    have = from_numpy_dtype(values.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        if have.is_storage and to.is_storage:
            values = values.astype(between(have, to).dtype)
        return values.astype(to.dtype)


def _native(values: np.ndarray) -> np.ndarray:
    """The array in a dtype that Ingle has, in the machine's byte order."""
    return values.astype(from_numpy_dtype(values.dtype).dtype, copy=False)

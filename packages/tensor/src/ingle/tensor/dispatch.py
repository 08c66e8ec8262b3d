"""From a public function to a backend: operands, promotion, and the choice of the backend.

An operation goes to the backend of its highest-level input; inputs of lower levels are constants
there. Everything here is on the path of every operation, which is why the common cases (two
tensors of one dtype on one backend) are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from .blocks import call_holding
from .contract import Aval, Backend, Handle, Scalar
from .device import Device, backend_of, call_on
from .dtypes import (
    ALL_DTYPES,
    LARGEST_EXPONENT,
    STORAGE_DTYPES,
    DType,
    default_float,
    int64,
    promote_types,
    scalar_dtype,
)
from .errors import DeviceError, DTypeError, IngleError, OperandError, spoken_by
from .followed import is_followed
from .operation import OPERATIONS, Op, Operation, infer
from .precision import low, suits, used
from .static_values import SymbolicInt

if TYPE_CHECKING:
    from .tensor import Tensor


class SupportsTensor(Protocol):
    """What operations take besides tensors: cells, and whatever else can show a tensor."""

    def __ingle_tensor__(self) -> Tensor: ...


Number: TypeAlias = bool | int | float | complex
if TYPE_CHECKING:
    TensorLike: TypeAlias = Tensor | SupportsTensor
    Operand: TypeAlias = Tensor | SupportsTensor | bool | int | float | complex
else:
    # Rooms build unions of these where the tensor class does not exist yet.
    TensorLike = Operand = Any

# The class of results. `tensor.py` installs it: rooms make tensors, and tensors have the rooms'
# functions as methods, so that one of the two has to come first.
_Tensor: Callable[[Handle], Tensor]
tensor_type: type


def install(kind: type[Tensor]) -> None:
    """Tells the dispatcher which class wraps handles; called once, by `tensor.py`."""
    global _Tensor, tensor_type
    _Tensor = tensor_type = kind


Watcher: TypeAlias = Callable[[Op, Sequence[Handle | Scalar], Sequence[Handle]], None]
_watcher: Watcher | None = None
Explainer: TypeAlias = Callable[[Op, IngleError], IngleError]
_explainer: Explainer | None = None


def watch(watcher: Watcher | None, explainer: Explainer | None = None) -> None:
    """Shows every operation that runs, with inputs and outputs, to a function; None for none.

    What is raised while the body of an operation runs goes through the explainer.
    """
    global _watcher, _explainer
    _watcher, _explainer = watcher, explainer


def watched() -> bool:
    """Whether somebody watches operations, in some thread."""
    return _watcher is not None


def show(op: Op, inputs: Sequence[Handle | Scalar], outputs: tuple[Handle, ...]) -> None:
    """Shows an operation that ran to the watcher."""
    # Another thread may have ended the watch meanwhile.
    watcher = _watcher
    if watcher is not None:
        watcher(op, inputs, outputs)


checking: set[type] = set()
"""Backends that check their operands themselves, as what they record has to be known."""


def wrap(handle: Handle) -> Tensor:
    """A tensor of a handle, for backends that run composites on their own level."""
    return _Tensor(handle)


def run1(op: Op, x: Handle) -> Tensor:
    """Runs an operation of one tensor and one output."""
    if used.ever and low.get() is not None:
        return _run_mixed(op, (x,))[0]
    inputs, backend = (x,), x.backend
    if type(backend) not in checking:
        infer(op, inputs)
    outputs = backend.execute(op, inputs)
    if _watcher is not None:
        show(op, inputs, outputs)
    return _Tensor(outputs[0])


def run2(op: Op, a: Handle | Scalar, b: Handle | Scalar) -> Tensor:
    """Runs an operation of two operands and one output."""
    if used.ever and low.get() is not None:
        return _run_mixed(op, (a, b))[0]
    inputs = (a, b)
    if type(a) is Scalar:
        backend = b.backend
    elif type(b) is Scalar:
        backend = a.backend
    else:
        backend = a.backend
        if b.backend is not backend:
            backend = highest(op, inputs)
    assert backend is not None, "two numbers never get here"
    if type(backend) not in checking:
        infer(op, inputs)
    outputs = backend.execute(op, inputs)
    if _watcher is not None:
        show(op, inputs, outputs)
    return _Tensor(outputs[0])


def run(op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Tensor, ...]:
    """Runs an operation of any number of operands and outputs."""
    if used.ever and low.get() is not None:
        return _run_mixed(op, inputs)
    backend = highest(op, inputs)
    if type(backend) not in checking:
        infer(op, inputs)
    outputs = backend.execute(op, inputs)
    if _watcher is not None:
        show(op, inputs, outputs)
    return tuple(map(_Tensor, outputs))


def _run_mixed(op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Tensor, ...]:
    """`run` in mixed precision; a backend executes the operation in the dtypes that it is given."""
    half = low.get()
    to = None if half is None else suits(op, inputs, half)
    if to is not None:
        inputs = [_in_precision(x, to) for x in inputs]
    return call_holding(low, None, run, op, inputs)


def _in_precision(x: Handle | Scalar, to: DType) -> Handle | Scalar:
    if x.dtype is to or not x.dtype.is_floating:
        return x
    return Scalar(x.value, to) if isinstance(x, Scalar) else cast_handle(x, to)


def create(op: Op, device: Device | str | None, inputs: Sequence[Scalar] = ()) -> Tensor:
    """Runs an operation without tensor inputs on a device's backend."""
    infer(op, inputs)
    for x in inputs:
        if is_followed(x.value) and x.value.tape.writer is not None:  # type: ignore[union-attr]
            return _Tensor(x.value.tape.writer.execute(op, inputs)[0])  # type: ignore[union-attr]
    return _Tensor(backend_of(device).execute(op, inputs)[0])


def highest(op: Op, inputs: Sequence[Handle | Scalar]) -> Backend:
    """The backend that executes: that of the input of the highest level."""
    best: Backend | None = None
    mixed = False
    for x in inputs:
        backend = x.backend
        if backend is None:
            continue
        if best is None:
            best = backend
        elif backend is not best:
            mixed = True
            if backend.device is not best.device and backend.device != best.device:
                group = _group_of(best)
                if group is not None and _group_of(backend) is group:
                    meeting: Backend = group.meeting(op, inputs)
                    return meeting
                where = ", ".join(
                    f"{n}: {h.backend.device}"
                    for n, h in zip(operand_names(op.operation, len(inputs)), inputs, strict=True)
                    if isinstance(h, Handle)
                )
                raise DeviceError(
                    f"{op.operation.name}: operands live on different devices ({where}); "
                    "move one of them with x.to_device(y.device)"
                )
            if backend.level > best.level or getattr(backend, "inner", None) is best:
                best = backend
    if best is None:
        raise OperandError(f"{op.operation.name}: needs at least one tensor among its operands")
    if mixed:
        # A recording backend may keep its operands: such memory is not written in place any more.
        for x in inputs:
            if isinstance(x, Handle) and x.owned is not None and x.backend is not best:
                x.owned.share()
    return best


def _group_of(backend: Backend) -> Any:
    """What several devices have in common that decides where their tensors meet, or None."""
    while backend.level:
        backend = backend.inner  # type: ignore[attr-defined]
    return getattr(backend, "group", None)


def operand_names(operation: Operation, count: int) -> list[str]:
    """What an operation calls its operands, each by its own name."""
    names = list(operation.tensors)
    if operation.variadic:
        last = names.pop()
        names += [f"{last}[{i}]" for i in range(count - len(names))]
    return names[:count]


def handle_of(x: object, name: str, argument: str = "x") -> Handle:
    """The handle of a tensor or cell; an `OperandError` for anything else."""
    if type(x) is tensor_type:
        return x._handle  # type: ignore[attr-defined,no-any-return]
    show = getattr(type(x), "__ingle_tensor__", None)
    if show is not None:
        return show(x)._handle  # type: ignore[no-any-return]
    raise OperandError(
        f"{name}: {argument} must be a tensor, got {type(x).__name__}; {made_by(x, argument)}"
    )


def handles_of(name: str, argument: str, parts: Sequence[object]) -> list[Handle]:
    """The handles of a list's tensors; errors say which of them is none."""
    return [
        x._handle if type(x) is tensor_type else handle_of(x, name, f"{argument}[{i}]")  # type: ignore[attr-defined]
        for i, x in enumerate(parts)
    ]


def is_sparse(x: object) -> bool:
    """Whether it is a sparse matrix of SciPy's, or of a library with the same protocol."""
    return hasattr(type(x), "toarray") and hasattr(type(x), "tocoo")


def made_by(x: object, argument: str) -> str:
    """How something that is no tensor becomes one, for messages."""
    library = type(x).__module__.partition(".")[0]
    if library != "numpy" and hasattr(x, "__dlpack__"):
        # PyTorch exports nothing that it records gradients for.
        detached = ".detach()" if getattr(x, "requires_grad", False) else ""
        return f"it is {library}'s: use ingle.tensor.from_dlpack({argument}{detached})"
    if is_sparse(x):
        return f"it is sparse, as no tensor is: use asarray({argument}.toarray())"
    if isinstance(x, (list, tuple)) and any(type(part) is tensor_type for part in x):
        return (
            f"give one of its tensors, all of them one by one (with * before the {type(x).__name__}"
            f"), or stack({argument})"
        )
    if x is None:
        return "the function that made it may lack a return"
    if callable(x):
        return "it is a function or module: call it, and give what it returns"
    return f"make one with asarray({argument})"


def call1(op: Op, x: object, argument: str = "x") -> Tensor:
    """One tensor argument, as it is."""
    if type(x) is tensor_type:
        return run1(op, x._handle)  # type: ignore[attr-defined]
    return run1(op, handle_of(x, op.operation.name, argument))


def call2(op: Op, x1: object, x2: object) -> Tensor:
    """Two operands, promoted to one dtype; at most one of them a number."""
    if type(x1) is tensor_type:
        a = x1._handle  # type: ignore[attr-defined]
        if type(x2) is tensor_type:
            b = x2._handle  # type: ignore[attr-defined]
            if a.dtype is b.dtype:
                return run2(op, a, b)
        elif a.dtype.is_inexact:
            if type(x2) is float or (type(x2) is int and x2.bit_length() < LARGEST_EXPONENT):
                return run2(op, a, Scalar(x2, a.dtype))
        elif a.dtype is int64 and type(x2) is int and x2.bit_length() < 64:
            return run2(op, a, Scalar(x2, a.dtype))
    elif type(x2) is tensor_type and (
        type(x1) is float or (type(x1) is int and x1.bit_length() < LARGEST_EXPONENT)
    ):
        b = x2._handle  # type: ignore[attr-defined]
        if b.dtype.is_inexact:
            return run2(op, Scalar(x1, b.dtype), b)
    h1, h2 = promote(op.operation.name, ("x1", x1), ("x2", x2))
    return run2(op, h1, h2)


def call2_floating(op: Op, x1: object, x2: object) -> Tensor:
    """Like `call2`, where integers and bools are cast to the default float dtype."""
    if type(x1) is tensor_type and x1.dtype.is_inexact:  # type: ignore[attr-defined]
        return call2(op, x1, x2)
    h1, h2 = promote(op.operation.name, ("x1", x1), ("x2", x2))
    if not h1.dtype.is_inexact:
        refuse_storage(op.operation.name, "x1", h1.dtype)
        to = default_float()
        h1, h2 = promote(op.operation.name, ("x1", x1), ("x2", x2), dtype=to)
    return run2(op, h1, h2)


def as_number(x: Any) -> Any:
    """A NumPy scalar, or a number of a class derived from Python's, as the plain number.

    Anything else, tensors among it, is returned as it is; a number that a recording follows goes
    on to be followed.
    """
    kind = type(x)
    if kind in _NUMBERS or kind is tensor_type:
        return x
    if is_followed(x):
        return x.item() if isinstance(x, np.generic) else x
    to: Callable[[Any], Number] | None = None
    if isinstance(x, np.generic):
        to = {"b": bool, "i": int, "u": int, "f": float, "c": complex}.get(x.dtype.kind)
        if to is None and x.dtype in _EXTENDED:
            to = float if _EXTENDED[x.dtype].holds == "float" else int
    else:
        to = next((t for t in (int, float, complex) if isinstance(x, t)), None)
    return x if to is None else to(x)


_NUMBERS = frozenset({bool, int, float, complex})
NUMBERS = (bool, int, float, complex, SymbolicInt)
"""Types of operands that are typed to the tensors beside them."""
_EXTENDED = {d.dtype: d for d in (*ALL_DTYPES, *STORAGE_DTYPES) if d.dtype.kind == "V"}


def promote(
    name: str, *operands: tuple[str, object], dtype: DType | None = None
) -> list[Handle | Scalar]:
    """Operands as handles and scalars of one dtype: the promoted one, or `dtype` if given."""
    if dtype is None and operands:
        ready = _ready(operands)
        if ready is not None:
            return ready
    operands = tuple([(argument, as_number(x)) for argument, x in operands])
    found: list[Handle | None] = []
    for argument, x in operands:
        if isinstance(x, NUMBERS):
            found.append(None)
        else:
            found.append(handle_of(x, name, argument))
    handles = [h for h in found if h is not None]
    if not handles:
        got = ", ".join(f"{argument}={x!r}" for argument, x in operands)
        raise OperandError(f"{name}: needs at least one tensor, got only numbers: {got}")
    if dtype is None:
        dtype = handles[0].dtype
        for h in handles[1:]:
            dtype = _common(name, dtype, h.dtype)
        for argument, x in operands:
            if isinstance(x, NUMBERS):
                dtype = scalar_dtype(x, dtype, f"{name}: {argument}")
    else:
        for (argument, _), given in zip(operands, found, strict=True):
            if given is not None and given.dtype is not dtype:
                refuse_storage(name, argument, given.dtype)
    return [
        Scalar(x, dtype) if h is None else cast_handle(h, dtype)  # type: ignore[arg-type]
        for h, (_, x) in zip(found, operands, strict=True)
    ]


def promote_several(name: str, argument: str, parts: Sequence[object]) -> list[Handle | Scalar]:
    """The tensors of a list as handles of one dtype, the promoted one."""
    handles = handles_of(name, argument, parts)
    dtype = handles[0].dtype
    for h in handles:
        if h.dtype is not dtype:
            named = [(f"{argument}[{i}]", wrap(h)) for i, h in enumerate(handles)]
            return promote(name, *named)
    return handles  # type: ignore[return-value]


def _ready(operands: Sequence[tuple[str, object]]) -> list[Handle | Scalar] | None:
    """The operands where nothing is cast, as mostly: tensors of one dtype, and numbers beside them
    that their dtype holds."""
    dtype: DType | None = None
    numbers = False
    for _, x in operands:
        if type(x) is tensor_type:
            own = x._handle.dtype  # type: ignore[attr-defined]
            if dtype is None:
                dtype = own
            elif own is not dtype:
                return None
        elif type(x) is float or (type(x) is int and x.bit_length() < LARGEST_EXPONENT):
            numbers = True
        else:
            return None
    if dtype is None or (numbers and not dtype.is_inexact):
        return None
    return [
        x._handle if type(x) is tensor_type else Scalar(x, dtype)  # type: ignore[attr-defined, arg-type]
        for _, x in operands
    ]


def promote_tensors(name: str, *operands: tuple[str, object]) -> list[Tensor]:
    """Operands of which none may be a number, as tensors of one dtype."""
    for argument, x in operands:
        handle_of(x, name, argument)
    return [_Tensor(h) for h in promote(name, *operands)]  # type: ignore[arg-type]


def _common(name: str, a: DType, b: DType) -> DType:
    try:
        return promote_types(a, b)
    except DTypeError as error:
        raise DTypeError(f"{name}: {error}") from None


def refuse_storage(name: str, argument: str, dtype: DType) -> None:
    """Raises for a dtype that only stores values, before it is cast to one that computes."""
    if dtype.is_storage:
        raise DTypeError(
            f"{name}: {argument} is {dtype}, which only stores values; cast it first with "
            f"{argument}.astype('float32')"
        )


def cast_handle(handle: Handle, dtype: DType) -> Handle:
    """The handle, cast if it has another dtype."""
    if handle.dtype is dtype:
        return handle
    return handle.backend.execute(OPERATIONS["astype"].op(dtype=dtype), (handle,))[0]


def as_floating(x: object, name: str, argument: str = "x") -> Handle:
    """A float or complex tensor's handle; integers and bools are cast to the default float."""
    handle = handle_of(x, name, argument)
    if handle.dtype.is_inexact:
        return handle
    refuse_storage(name, argument, handle.dtype)
    return cast_handle(handle, default_float())


def execute_body(op: Op, inputs: Sequence[Handle | Scalar], where: Device) -> tuple[Handle, ...]:
    """Runs a composite's body on the level of its inputs; scalars arrive as Python numbers.

    What the body creates lives on the device `where`.
    """
    body = op.operation.body
    assert body is not None, op
    operands = [x.value if type(x) is Scalar else _Tensor(x) for x in inputs]  # type: ignore[arg-type]
    try:
        result = call_on(where, body, *operands, **op.attributes)
    except IngleError as error:
        told = told_of(op, error)
        if told is error:
            raise
        raise told from None
    if isinstance(result, tuple):
        return tuple(r._handle for r in result)
    return (result._handle,)


def told_of(op: Op, error: IngleError) -> IngleError:
    """What an error of a composite's body says, in the name of the operation."""
    told, explainer = spoken_by(op.operation.name, error), _explainer
    return told if explainer is None else explainer(op, told)


def aval_of(x: Handle | Scalar) -> Aval:
    """Shape and dtype of an operand."""
    return Aval(x.shape, x.dtype)

"""NumPy's functions whose meaning an operation has, and what their arguments are called there.

A line has NumPy's names of the function, its arguments in NumPy's order, and the operation with
those that it takes: `a` by position, `axis=` by the same name, `correction=ddof` by another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .errors import ArgumentError

_FOURIER = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_LINES = (
    """
all|any a axis out keepdims where: a axis= keepdims=
max|amax|min|amin a axis out keepdims initial where: a axis= keepdims=
argmax|argmin a axis out keepdims: a axis= keepdims=
round|around a decimals out: a decimals=
astype x dtype copy device: x dtype copy= device=
bincount x weights minlength: x weights= minlength=
broadcast_to array shape subok: array shape
clip a a_min a_max out min max: a min=a_min max=a_max min= max=
column_stack|dstack|hstack|vstack tup dtype casting: tup
concatenate|concat arrays axis out dtype casting: arrays axis=
corrcoef x y rowvar dtype: x
count_nonzero a axis keepdims: a axis= keepdims=
cov m y rowvar bias ddof fweights aweights dtype: m correction=ddof fweights= aweights=
cumulative_prod|cumulative_sum x axis dtype out include_initial: x axis= dtype= include_initial=
diag v k: v offset=k
diff a n axis prepend append: a n= axis= prepend= append=
einsum *operands out optimize: *operands
empty_like prototype dtype order subok shape device: prototype dtype= device=
ones_like|zeros_like a dtype order subok shape device: a dtype= device=
full_like a fill_value dtype order subok shape device: a fill_value dtype= device=
expand_dims a axis: a axis
fix x out: x
flip m axis: m axis=
i0|sinc x: x
imag|real val: val
isclose a b rtol atol equal_nan: a b rtol= atol= equal_nan=
isin element test_elements assume_unique invert kind: element test_elements invert=
kron a b: a b
matrix_transpose x: x
mean a axis dtype out keepdims where: a axis= keepdims=
meshgrid *xi copy sparse indexing: *xi indexing=
moveaxis a source destination: a source destination
nan_to_num x copy nan posinf neginf: x nan= posinf= neginf=
nanmean a axis dtype out keepdims where: a axis= keepdims=
nansum|prod|sum a axis dtype out keepdims initial where: a axis= dtype= keepdims=
nonzero a: a
quantile|nanquantile a q axis out overwrite_input method keepdims weights interpolation: """
    """a q axis= interpolation=method interpolation= keepdims=
ravel_multi_index multi_index dims mode order: multi_index dims
repeat a repeats axis: a repeats axis=
reshape a shape order copy newshape: a shape= shape=newshape copy=
roll a shift axis: a shift axis=
rot90 m k axes: m k= axes=
searchsorted a v side sorter: a v side= sorter=
squeeze a axis: a axis=
stack arrays axis out dtype casting: arrays axis=
std|var a axis dtype out ddof keepdims where mean correction: a axis= correction=ddof """
    """correction= keepdims=
swapaxes a axis1 axis2: a axis1 axis2
tensordot a b axes: a b axes=
tile A reps: A reps
trapezoid y x dx axis: y x= dx= axis=
tril|triu m k: m k=
unravel_index indices shape order: indices shape
unstack x axis: x axis=
linalg.cholesky a upper: a upper=
linalg.cond x p: x ord=p
linalg.cross x1 x2 axis: x1 x2 axis=
linalg.det|linalg.eig|linalg.eigvals|linalg.inv|linalg.slogdet a: a
linalg.eigh|linalg.eigvalsh a UPLO: a
linalg.diagonal x offset: x offset=
linalg.lstsq a b rcond: a b rtol=rcond
linalg.matmul|linalg.outer x1 x2: x1 x2
linalg.matrix_norm x keepdims ord: x keepdims= ord=
linalg.matrix_power a n: a n
linalg.matrix_rank A tol hermitian rtol: A rtol=
linalg.matrix_transpose|linalg.svdvals x: x
linalg.multi_dot arrays out: arrays
linalg.pinv a rcond hermitian rtol: a rtol=rcond rtol=
linalg.solve a b: a b
linalg.tensordot x1 x2 axes: x1 x2 axes=
linalg.trace x offset dtype: x offset= dtype=
linalg.vecdot x1 x2 axis: x1 x2 axis=
linalg.vector_norm x axis keepdims ord: x axis= keepdims= ord=
fft.fftn|fft.ifftn|fft.rfftn|fft.irfftn a s axes norm out: a s= axes= norm=
fft.fftshift|fft.ifftshift x axes: x axes=
lib.stride_tricks.sliding_window_view x window_shape axis subok writeable: x window_shape axis=
""" + "|".join(f"fft.{name}" for name in _FOURIER) + " a n axis norm out: a n= axis= norm=\n"
)
_RENAMED = {
    "amax": "max", "amin": "min", "around": "round", "concatenate": "concat", "fix": "trunc",
    "lib.stride_tricks.sliding_window_view": "sliding_window_view",
}  # fmt: skip
"""Operations that are called otherwise than NumPy's function."""
_AXES = frozenset({"axis", "axes"})
"""Arguments whose None is a choice; elsewhere it stands for none given."""
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "order": ("C", "K", "A"), "subok": (True, False), "where": (True,), "copy": (True, False),
    "casting": ("same_kind", "safe"), "mode": ("raise",), "assume_unique": (True, False),
    "overwrite_input": (True, False), "hermitian": (False,), "optimize": (True, False, "greedy"),
    "rowvar": (True,), "bias": (False,), "sparse": (False,), "UPLO": ("L",), "writeable": (False,),
}  # fmt: skip
"""What arguments may be that an operation does not take, as it means the same with them."""


class Call(NamedTuple):
    """How a function of NumPy's is called, and the operation of its meaning.

    Attributes:
        parameters: NumPy's, in its order; the first may be "*args".
        operation: its name in `ingle.tensor`, as "linalg.inv".
        taken: the operation's arguments: its keyword, or "" for one by position, and NumPy's name.
    """

    parameters: tuple[str, ...]
    operation: str
    taken: tuple[tuple[str, str], ...]


def _calls() -> dict[str, Call]:
    calls = {}
    for line in _LINES.strip().splitlines():
        theirs, _, ours = line.partition(": ")
        names, *parameters = theirs.split()
        taken = []
        for item in ours.split():
            keyword, equals, name = item.partition("=")
            taken.append((keyword, name or keyword) if equals else ("", keyword))
        for name in names.split("|"):
            calls[name] = Call(tuple(parameters), _RENAMED.get(name, name), tuple(taken))
    return calls


CALLS = _calls()
"""The calls by NumPy's name, as "linalg.inv"."""


def translated(
    name: str, args: tuple[Any, ...], options: dict[str, Any], absent: object
) -> tuple[list[Any], dict[str, Any]]:
    """The operation's arguments of a call of NumPy's function.

    Args:
        name: one of `CALLS`.
        args: what NumPy's function was called with.
        options: and by name.
        absent: NumPy's mark of an argument that is not given.

    Raises:
        ArgumentError: an argument that the operation does not have.
    """
    call = CALLS[name]
    first, *others = call.parameters
    rest = () if first[0] == "*" else args[len(call.parameters) :]
    given = dict(options)
    if first[0] == "*":
        given[first] = args
    else:
        given.update(zip(call.parameters, args, strict=False))
    unknown = next((key for key in options if key not in (first, *others)), None)
    if rest or unknown:
        raise TypeError(
            f"np.{name}: there is no {unknown}=" if unknown else
            f"np.{name}: takes at most {len(call.parameters)} arguments, got {len(args)}"
        )  # fmt: skip
    positional: list[Any] = []
    named = {}
    for keyword, parameter in call.taken:
        if parameter not in given:
            continue
        value = given.pop(parameter)
        if parameter[0] == "*":
            positional += value
        elif not keyword:
            positional.append(value)
        elif value is not absent and (value is not None or parameter in _AXES):
            named[keyword] = value
    for key, value in given.items():
        if not is_harmless(key, value, absent):
            raise ArgumentError(
                f"np.{name}: there is no {key}= with tensors; write "
                f"it.{call.operation}(...), and what {key}= stands for around it"
            )
    return positional, named


def is_harmless(key: str, value: Any, absent: object) -> bool:
    """Whether an argument that an operation does not have changes nothing."""
    if value is None:
        return key not in _AXES
    return (
        value is absent
        or any(value is x for x in _HARMLESS.get(key, ()))
        or (isinstance(value, str) and value in _HARMLESS.get(key, ()))
    )

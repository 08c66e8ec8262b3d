"""Every name of the Python array API standard 2025.12 is there, in the main namespace and beside.

The standard's own suite has a session (`nox -f nox.py -s standard -- PATH`); this list is what
is quick to look at on every change.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import ingle.tensor as it

FUNCTIONS = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh
bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
broadcast_arrays broadcast_shapes broadcast_to can_cast ceil clip concat conj copysign cos cosh
count_nonzero cumulative_prod cumulative_sum diff divide empty empty_like equal exp expand_dims
expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater greater_equal hypot
iinfo imag isdtype isfinite isin isinf isnan less less_equal linspace log log10 log1p log2 logaddexp
logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean
meshgrid min minimum moveaxis multiply negative nextafter nonzero not_equal ones ones_like
permute_dims
positive pow prod
real reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh
sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril
triu trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros
zeros_like
"""
LINALG = """
cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power
matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot
trace vecdot vector_norm
"""
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift"
DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
)
CONSTANTS = "e inf nan newaxis pi"
METHODS = """
__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__
__float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__
__lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__
__sub__ __truediv__ __xor__ to_device mT T device dtype ndim shape size
"""


@pytest.mark.parametrize(
    ("place", "names"), [(it, FUNCTIONS), (it.linalg, LINALG), (it.fft, FFT)], ids=str
)
def test_functions_are_there(place: Any, names: str) -> None:
    missing = [n for n in names.split() if not callable(getattr(place, n, None))]
    assert not missing


def test_dtypes_constants_and_methods_are_there() -> None:
    assert [n for n in DTYPES.split() if not isinstance(getattr(it, n, None), it.DType)] == []
    assert [n for n in CONSTANTS.split() if not hasattr(it, n)] == []
    assert [n for n in METHODS.split() if not hasattr(it.Tensor, n)] == []


@pytest.mark.parametrize("name", ["sum", "mean", "argmax", "cumulative_sum", "sort", "concat"])
def test_axis_is_a_keyword_of_what_goes_along_one(name: str) -> None:
    parameters = inspect.signature(getattr(it, name)).parameters
    assert parameters["axis"].kind is inspect.Parameter.KEYWORD_ONLY
    assert next(iter(parameters.values())).kind is inspect.Parameter.POSITIONAL_ONLY

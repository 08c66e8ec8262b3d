"""What errors tell to write for PyTorch's names computes what PyTorch computes: its text runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.fft.other_names import OTHERS as FFT
from ingle.tensor.linalg.other_names import OTHERS as LINALG
from ingle.tensor.pytorch_names import renamed

torch = pytest.importorskip("torch")
draw = np.random.default_rng(0).normal
VALUES: dict[str, Any] = {
    "x": draw(size=(4, 4)) * 2, "a": draw(size=(4, 4)), "b": draw(size=(4, 4)),
    "c": draw(size=(4, 4)),
    "v": draw(size=4), "w": draw(size=4), "z": draw(size=(4, 4)) + 1j * draw(size=(4, 4)),
    "far": np.array([-9.0, -1.5, 0.0, 0.5, 3.0]), "p": np.array([0.1, 0.5, 0.99]),
    "tiny": np.array([1e-12, 0.5, 0.0, -1.0]), "count": np.array([2.0, 0.0, 0.0, 0.0]),
    "odd": np.array([3.0, np.nan, np.inf, -1.0]),
    "mirror": np.diag([-1.0, 1.0, 2.0]), "flags": np.array([True, False, True, True]),
    "whole": np.array([7, -7, 3]), "other": np.array([2, 2, -2]),
}  # fmt: skip
LETTERS = {"beta": 0.5, "alpha": 2.0, "value": 3.0, "n": 4, "low": -0.5, "high": 0.5, "bins": 5}

CASES = """
absolute: torch.absolute(x)
amax: torch.amax(x, 1), axis=1
addmm: torch.addmm(c, a, b, beta=0.5, alpha=2.0)
addr: torch.addr(c, v, w, beta=0.5, alpha=2.0), a=v b=w
addcmul: torch.addcmul(x, a, b, value=3.0)
addcdiv: torch.addcdiv(x, a, b, value=3.0)
adjoint: z.adjoint(), x=z
aminmax: torch.aminmax(x)
argwhere: torch.argwhere(x > 0), x=x>0
bitwise_not: torch.bitwise_not(flags), x=flags
clamp: torch.clamp(x, -0.5, 0.5)
clamp_max: torch.clamp_max(x, 0.5)
complex: torch.complex(a, b)
conj_physical: torch.conj_physical(z), x=z
resolve_conj: torch.resolve_conj(z.conj()), x=z.conj()
diagflat: torch.diagflat(x)
cross: torch.cross(x[:3], c[:3], dim=0), a=x[:3] b=c[:3] axis=0
dist: torch.dist(a, b)
dot: torch.dot(v, w), a=v b=w
entr: torch.special.entr(far), x=far
fix: torch.fix(x)
float_power: torch.float_power(whole, 2), x=whole y=2
float_power: torch.float_power(z, 2), x=z y=2
fliplr: torch.fliplr(x)
frac: torch.frac(x)
ger: torch.ger(v, w), a=v b=w
histc: torch.histc(x, 5)
i0e: torch.special.i0e(x)
i1e: torch.special.i1e(x)
inner: torch.inner(a, b)
isneginf: torch.isneginf(x)
isreal: torch.isreal(z), x=z
ldexp: torch.ldexp(v, whole[:1]), x=v n=whole[:1]
logaddexp2: torch.logaddexp2(a, b)
logdet: torch.logdet(x)
logdet: torch.logdet(mirror), x=mirror
logdet: torch.logdet(z), x=z
msort: torch.msort(x)
ndtr: torch.special.ndtr(x)
ndtri: torch.special.ndtri(p)
pdist: torch.nn.functional.pdist(x)
polar: torch.polar(v, w), r=v angle=w
range: torch.arange(2.0, 8.5, 1.5), start=2.0 end=8.0 step=1.5
range: torch.arange(2.0, 7.9, 1.5), start=2.0 end=7.9 step=1.5
range: torch.arange(3.0, -0.5, -1.0), start=3.0 end=0.0 step=-1.0
rsub: torch.rsub(a, b)
sgn: torch.sgn(z), x=z
std_mean: torch.std_mean(x)
true_divide: torch.true_divide(whole, other), a=whole b=other
floor_divide: torch.floor_divide(whole, other), a=whole b=other
vander: torch.vander(v), x=v
vdot: torch.vdot(z[0], z[1]), a=z[0] b=z[1]
view_as_real: torch.view_as_real(z), x=z
var_mean: torch.var_mean(x)
xlog1py: torch.special.xlog1py(count, tiny), x=count y=tiny
xlog1py: torch.special.xlog1py(count, odd), x=count y=odd
entr: torch.special.entr(odd), x=odd
ndtr: torch.special.ndtr(odd), x=odd
linalg.vander: torch.linalg.vander(v), x=v
linalg.tensorinv: torch.linalg.tensorinv(x.reshape(2, 2, 4)), shape=(4,2,2)
linalg.cholesky_ex: torch.linalg.cholesky(z@z.mH), x=z@it.conj(z).mT
fft.fft2: torch.fft.fft2(z), x=z
fft.irfft2: torch.fft.irfft2(z), x=z
fft.hfft2: torch.fft.hfft2(z), x=z others=(-2,) last=-1
fft.ihfft2: torch.fft.ihfft2(x), others=(-2,) last=-1
""".strip().splitlines()
"""A name, PyTorch's call, and behind the last comma what the answer's letters stand for."""


@pytest.mark.parametrize("case", CASES)
def test_an_answer_computes_what_pytorch_does(case: str) -> None:
    name, rest = case.split(": ", 1)
    call, _, letters = rest.rpartition("), ") if rest.count("), ") else (rest, "", "")
    call = call + ")" * bool(letters)
    theirs = eval(call, {"torch": torch, **{k: torch.tensor(v) for k, v in VALUES.items()}})
    ours: dict[str, Any] = {"it": it, "math": math, "np": np}
    ours |= {k: it.asarray(v) for k, v in VALUES.items()} | LETTERS
    for letter in letters.split():
        key, value = letter.split("=", 1)
        ours[key] = eval(value, dict(ours))
    tables = {"fft": FFT, "linalg": LINALG, "": renamed}
    code = tables[name.rpartition(".")[0]][name.rpartition(".")[2]]
    code, _, remark = code.partition(", of ")
    exec(remark if "=" in remark else "", ours)
    for end in (", which ", ", for "):
        code = code.partition(end)[0]
    result = eval(code.replace("axis=...", f"axis={ours.get('axis')}"), ours)
    result, theirs = _several(result), _several(theirs)
    assert len(result) == len(theirs)
    for mine, other in zip(result, theirs, strict=True):
        expected = other.resolve_conj().numpy()
        assert mine.shape == expected.shape
        scale = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
        np.testing.assert_allclose(mine.numpy(), expected, rtol=1e-9, atol=1e-13 * scale)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]

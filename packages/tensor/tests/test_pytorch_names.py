"""Every public name of PyTorch's tensors and functions has an answer here, and the answers hold."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor import pytorch_names
from ingle.tensor.errors import ArgumentError, AxisError, OperandError
from ingle.tensor.pytorch_names import answer, home, refused, renamed

torch = pytest.importorskip("torch")
X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4) / 7 - 1
PLACES = {
    "Tensor": torch.Tensor, "torch": torch, "nn.functional": torch.nn.functional,
    "special": torch.special,
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_every_public_name_has_an_answer(place: str) -> None:
    # Modules below it are there as soon as anybody has imported them.
    names = [
        n for n, v in inspect.getmembers(PLACES[place])
        if not (n.startswith("_") or isinstance(v, ModuleType))
    ]  # fmt: skip
    assert len(names) > (150 if place != "special" else 50)
    assert [n for n in names if answer(n, place) is None] == []


@pytest.mark.parametrize("place", PLACES)
def test_reasons_are_for_names_without_a_home_alone(place: str) -> None:
    for name in dir(PLACES[place]):
        if not name.startswith("_") and home(name):
            told = answer(name, place)
            assert told is not None
            assert told.startswith("write "), name


def test_the_names_that_answers_give_exist() -> None:
    roots: dict[str, Any] = {"it": it, "x": it.zeros((2, 2)), "np": np}
    for name, code in renamed.items():
        for root, path in re.findall(r"(?<![\w.])(it|x|np)((?:\.[a-zA-Z_]\w*)+)", code):
            value = roots[root]
            for part in path.split(".")[1:]:
                value = getattr(value, part)
            assert not isinstance(value, ModuleType) or path == ".random", (name, code)
    assert all(patterns for patterns in refused.values())


@pytest.mark.parametrize("name", ["linalg", "fft"])
def test_names_of_the_extensions_have_an_answer(name: str) -> None:
    ours = getattr(it, name)
    for theirs, value in inspect.getmembers(getattr(torch, name)):
        own = getattr(value, "__module__", "").startswith("torch._C._" + name)
        own = own or inspect.isbuiltin(value)
        if own and not theirs.startswith("_") and not hasattr(ours, theirs):
            with pytest.raises(AttributeError, match=r"as PyTorch's has; here: ."):
                getattr(ours, theirs)
    assert pickle.loads(pickle.dumps(ours)) is ours


def test_an_answer_names_what_is_called_the_same() -> None:
    # A function that was written since must not be passed over.
    for name, code in renamed.items():
        same = home(name)
        if same and same != "it.tensor":
            known = {"it.scatter_add", "it.linalg.lu", "it.floor_divide"}
            assert same in code or same in known, (name, code)
    for reason, patterns in refused.items():
        assert [p for p in patterns if home(p) and "PyTorch itself" not in reason] == [], reason


def test_no_answer_is_given_to_what_is_no_name_of_pytorchs() -> None:
    assert [answer(n) for n in ("frobnicate", "frobnicate_", "zerros")] == [None] * 3


def test_answers_for_names_in_place_are_whole_calls() -> None:
    """`masked_fill_` was answered with `it.masked_fill(x)`, which lacks the mask."""
    names = [n for n in dir(torch.Tensor) if n.endswith("_") and not n.startswith("_")]
    assert len(names) > 100
    for name in names:
        told = answer(name, "Tensor")
        assert told is not None
        if not told.startswith("tensors never change; write x = "):
            continue
        code = told.removeprefix("tensors never change; write x = ")
        assert re.search(r"(?<![.\w])x\b", code), (name, code)
        call = ast.parse(code, mode="eval").body
        if isinstance(call, ast.Call) and code.startswith("it."):
            function = eval(ast.unparse(call.func), {"it": it})
            keywords: dict[str, Any] = {str(k.arg): None for k in call.keywords}
            inspect.signature(function).bind(*call.args, **keywords)


def test_errors_carry_the_answers() -> None:
    x = it.asarray(X)
    cell = it.Cell(x)
    for owner, relu in ((x, "never change; write x = it.relu"), (cell, "write x.value = it.relu")):
        with pytest.raises(AttributeError, match=r"cuda.*write x\.to_device"):
            owner.cuda()
        with pytest.raises(AttributeError, match=re.escape(relu)):
            owner.relu_()
        with pytest.raises(AttributeError, match=r"no attribute 'frobnicate'$"):
            owner.frobnicate  # noqa: B018
        assert not hasattr(owner, "__frobnicate__")
    with pytest.raises(AttributeError, match=r"write it\.concat"):
        it.cat  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cat"):
        from ingle.tensor import cat  # type: ignore[attr-defined]  # noqa: F401
    assert pytorch_names.answer("exp", "Tensor") == "write it.exp(x)"


@pytest.mark.parametrize(
    ("name", "told"),
    [("requires_grad", "require_grad()"), ("grad", "loss.backward()"), ("data", "detach()")],
)
@pytest.mark.parametrize("make", [it.asarray, lambda x: it.Cell(it.asarray(x))])
def test_who_writes_an_attribute_of_pytorchs_gets_its_answer(make, name: str, told: str) -> None:
    owner = make(X)
    with pytest.raises(AttributeError) as read:
        getattr(owner, name)
    with pytest.raises(AttributeError) as written:
        setattr(owner, name, None)
    assert str(read.value) == str(written.value)
    assert told in str(written.value)
    assert not hasattr(type(owner), name)


# Calls on a tensor of shape (2, 3, 4) that mean the same in both.
SAME = """
x.view(6, 4) | x.view(-1) | x.view((4, 6)) | x.view_as(x) | x.reshape(4, -1)
x.permute(2, 0, 1) | x.permute((0, 2, 1)) | x.transpose(0, 2) | x.transpose(-1, -2)
x.unsqueeze(0) | x.unsqueeze(-1) | x[:1].squeeze(0) | x[:1].squeeze(dim=0) | x.flatten(1)
x.flatten() | x[0].t() | x[0, 0].t() | x[:1].expand(5, 3, 4) | x[:1].expand(5, -1, -1)
x[:, :1].expand_as(x) | x.unsqueeze(dim=1) | x.size() | x.size(1) | x.size(-1) | x.dim()
x.ndimension() | x.numel() | x.nelement() | x.element_size() | x.is_floating_point()
x.is_complex() | x.float() | x.double() | x.half().float() | x.long() | x.int() | x.bool()
x.to(x.double()) | x.type_as(x.long()) | x.cpu() | x.contiguous() | x.clone() | x.sum(1)
x.sum(dim=1) | x.sum((0, 2)) | x.sum(dim=(0, 1), keepdim=True) | x.sum(-1, True) | x.mean(0)
x.mean(dim=2, keepdim=True) | x.prod(1) | x.amax(1) | x.amin(dim=2, keepdim=True) | x.argmax(1)
x.argmin(dim=0) | x.argmax() | x.any(1) | x.all(dim=0) | x.max() | x.min() | x.softmax(1)
x.softmax(dim=-1) | x.log_softmax(2) | x.logsumexp(1) | x.logsumexp(dim=(0, 1)) | x.cumsum(1)
x.cumprod(dim=0) | x.flip(dims=[0, 2]) | x.roll(1, dims=1) | x.chunk(2, dim=2)[1]
x.split(2, 1)[0] | x.split(1, dim=0)[1] | x.unbind(1)[2] | x.movedim(0, 2) | x.swapdims(0, 1)
x.std(1, correction=0) | x.var(dim=1, correction=1) | x.argsort(1)
x.argsort(dim=0, descending=True) | x.add(1) | x.sub(x) | x.mul(2) | x.div(2) | x.neg()
x.pow(2) | x.eq(0) | x.lt(1) | x.ge(0) | x.matmul(x.transpose(1, 2)) | x.bmm(x.transpose(1, 2))
x[0].mm(x[0].t()) | x[0].mv(x[0, 0]) | x.clamp(0, 1) | x.clamp(min=0.5) | x.sigmoid() | x.relu()
x.tanh() | x.exp() | x.abs() | x.sqrt().isnan() | x.tril() | x.topk(2)[0] | x.cummax(1)[0]
x.count_nonzero(1) | x.logical_not() | x.masked_fill(x > 0, 1) | x.kthvalue(2, 1)[0] | x.real
x.diff(dim=1) | x.round() | x.floor() | x.tolist() | F.softmax(x, dim=1) | F.softmax(x, 1)
F.log_softmax(x, dim=-1) | m.sum(x, 1) | m.mean(x, 1, True) | m.zeros(2, 3) | m.ones(4)
m.zeros((2, 3)) | m.stack([x, x], 1) | m.stack([x, x], dim=2) | m.argmax(x, dim=1, keepdim=True)
F.glu(x, dim=2) | F.normalize(x, dim=2) | m.squeeze(x[:1], dim=0)
F.cosine_similarity(x, x + 1, dim=2) | m.tensordot(x, x, dims=([0, 1, 2], [0, 1, 2]))
m.flip(x, [0]) | x.diff(2) | m.diff(x, 1, 0) | m.diff(x, 2, 1) | x.diff(2, dim=0)
F.normalize(x, 1) | F.normalize(x, 1.0, 2) | F.normalize(x, 3, dim=0) | m.linalg.vector_norm(x, 1)
m.linalg.vector_norm(x, 3, 1) | m.linalg.vector_norm(x, 1, (0, 2), True)
m.linalg.vector_norm(x, float("inf"), dim=0)
m.fft.fft(x, 2) | m.fft.fft(x, 2, 1) | m.fft.rfft(x, None, 1)
m.fft.irfft(x, 4, dim=1) | m.fft.fftn(x, (2, 2)) | m.fft.fftn(x, (2, 2), (0, 1))
m.fft.rfftn(x, dim=(0, 1)) | m.fft.fftshift(x, dim=1) | m.fft.hfft(x, n=4, dim=0)
m.bincount(x[0, 0].long() + 2, weights=x[0, 0]) | F.one_hot(x.long() + 2, num_classes=6).float()
x.topk(k=2, dim=1)[0] | x.kthvalue(k=2, dim=0)[0] | m.quantile(x, q=0.5, dim=1)
m.nanquantile(x, q=0.5, dim=1) | x.masked_fill(mask=x > 0, value=2) | m.chunk(x, chunks=2, dim=2)[0]
F.prelu(x, weight=x[0, :, 0]) | F.threshold(x, threshold=0.5, value=2.0) | m.rot90(x, k=3)
m.lerp(x, end=x + 1, weight=0.25) | m.trapezoid(x[0, 0], x=x[0, 1]) | m.combinations(x[0, 0], r=3)
"""
CALLS = [call.strip() for line in SAME.strip().splitlines() for call in line.split(" | ")]


def numbers(value: Any) -> Any:
    if isinstance(value, (tuple, torch.Size)):
        return [numbers(v) for v in value]
    if isinstance(value, (it.Tensor, torch.Tensor)):
        return np.asarray(value)
    return value


@pytest.mark.sampled(4)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_means_the_same(call: str) -> None:
    ours = eval(call, {"x": it.asarray(X), "F": it, "m": it})
    theirs = eval(call, {"x": torch.tensor(X), "F": torch.nn.functional, "m": torch})
    got, want = numbers(ours), numbers(theirs)
    if isinstance(want, np.ndarray):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        "x.max(1)", "x.max(dim=1)", "x.min(1, True)", "x.median(1)", "x.sort(1)", "x.sort(dim=0)",
        "x.var(1)", "x.std(dim=0)", "x.var(dim=1, keepdim=True)", "x.repeat(2, 1, 1)",
        "m.max(x, x)", "m.sort(x, dim=1)",
    ],
)  # fmt: skip
def test_a_call_that_means_something_else_is_refused(call: str) -> None:
    with pytest.raises(ArgumentError, match=r"write|is tile|maximum"):
        eval(call, {"x": it.asarray(X), "m": it})


def test_arguments_that_are_too_many() -> None:
    x = it.asarray(X)
    for call in (lambda: it.sum(x, x), lambda: x.sum(1, True, 3), lambda: x.sum(dim=0, axis=1),
                 lambda: x.softmax(dim=0, keepdim=True), lambda: x.sum(frob=1)):  # fmt: skip
        with pytest.raises(TypeError, match=r"sum|softmax"):
            call()


def test_public_functions_are_found_by_pickle() -> None:
    for function in (it.sum, it.softmax, it.zeros, it.linalg.vector_norm, it.concat, it.exp):
        assert pickle.loads(pickle.dumps(function)) is function
    assert type(pickle.loads(pickle.dumps(it.zeros((2, 3)).size))) is int


def test_a_tensor_of_pytorch_is_no_operand() -> None:
    x, theirs = it.asarray(X), torch.tensor(X)
    for use in (
        lambda: it.exp(theirs), lambda: x + theirs, lambda: theirs * x,
        lambda: it.where(x > 0, x, theirs),
        lambda: it.concat([x, theirs]), lambda: x[theirs.long()], lambda: x[0, torch.tensor([0])],
        lambda: it.linear(x, theirs[0]), lambda: it.cross_entropy(x[0], theirs[0, :, 0].long()),
    ):  # fmt: skip
        with pytest.raises(OperandError, match=r"torch's: use ingle\.tensor\.from_dlpack"):
            use()
    with pytest.raises(OperandError, match=r"from_dlpack\(x\.detach\(\)\)"):
        it.exp(theirs.requires_grad_())
    np.testing.assert_array_equal(it.from_dlpack(theirs.detach()).numpy(), X)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("x.var(unbiased=False)", r"var\(x, axis=..., correction=0\)"),
        ("x.std(1, unbiased=True)", r"std\(x, axis=..., correction=1\)"),
        ("it.var(x, dim=0, unbiased=True)", r"var\(x, axis=..., correction=1\)"),
        ("x.add(x, alpha=2)", r"write x \+ 2 \* y"),
        ("x.sub(x, alpha=0.5)", r"write x - 0.5 \* y"),
        ("x.div(x, rounding_mode='floor')", r"floor_divide\(x, y\)"),
    ],
)
def test_options_that_only_pytorch_has_say_what_to_write(call: str, told: str) -> None:
    x = it.ones((2, 3))
    with pytest.raises(ArgumentError, match=told):
        eval(call, {"it": it, "x": x})
    assert x.add(x).tolist() == [[2.0] * 3] * 2
    assert x.div(2.0).tolist() == [[0.5] * 3] * 2


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("diagonal", "write it.diagonal(x)"),
        ("lstsq", "write it.linalg.lstsq(x, y)"),
        ("polygamma", "write it.polygamma(n, x)"),
        ("scatter_reduce", 'write it.put_along_axis(x, i, y, axis=..., reduce="amax")'),
    ],
)
def test_answers_for_methods_are_calls(name: str, told: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(it.zeros((2, 2)), name)
    assert str(caught.value) == f"Tensor has no attribute {name!r}; {told}"


def test_what_no_shape_can_be_taken_of() -> None:
    x = it.ones((2, 3))
    for method in (x.expand_as, x.view_as, x.reshape_as, x.type_as):
        with pytest.raises(OperandError, match="other must be a tensor, got list"):
            method([1.0])
    for dim in (2, -3):
        with pytest.raises(AxisError, match=rf"size: dim={dim} is out of range for shape \(2, 3\)"):
            x.size(dim)
    with pytest.raises(ArgumentError, match=r"size: dim must be an integer, got 0\.5"):
        x.size(0.5)
    with pytest.raises(ArgumentError, match=r"pad: widths=\[1.0, 2.0\] must be a number, a pair"):
        it.pad(x, [1.0, 2.0])

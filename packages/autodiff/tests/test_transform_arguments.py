"""Mistakes in calls of transforms: values in place of functions, other libraries' keywords."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import ingle.autodiff as autodiff
import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, OperandError

TRANSFORMS = {
    "grad": (), "value_and_grad": (), "jacobian": (), "hessian": (), "vmap": (), "checkpoint": (),
    "custom_gradient": (), "vjp": (1.0,), "linearize": (1.0,), "jvp": ((1.0,), (1.0,)),
    "hvp": ((1.0,), (1.0,)), "vhp": ((1.0,), (1.0,)),
}  # fmt: skip


def test_all_transforms_are_here():
    """Those that a function is given to, by the name of their first argument."""
    found = {
        name
        for name, thing in vars(autodiff).items()
        if inspect.isfunction(thing)
        and next(iter(inspect.signature(thing).parameters), "") == "function"
    }
    assert found == set(TRANSFORMS)


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("given", [it.ones(()), 3.0, "f", None], ids=str)
def test_a_value_is_no_function(name: str, given: Any):
    with pytest.raises(OperandError, match=f"^{name}: needs a function, got ") as caught:
        getattr(autodiff, name)(given, *TRANSFORMS[name])
    assert ("backward()[x]" in str(caught.value)) == isinstance(given, it.Tensor)


@pytest.mark.parametrize(
    ("name", "keyword", "cure"),
    [
        ("vmap", "in_dims", "in_axes="),
        ("vmap", "out_dims", "out_axes="),
        ("grad", "has_aux", "value_and_grad"),
        ("grad", "create_graph", "grad(grad(f))"),
        ("hessian", "vectorize", "as a batch"),
        ("checkpoint", "use_reentrant", "leave it out"),
    ],
)
def test_keywords_of_others_are_answered(name: str, keyword: str, cure: str):
    with pytest.raises(ArgumentError, match=f"^{name}: there is no {keyword}=0; ") as caught:
        getattr(autodiff, name)(it.sum, **{keyword: 0})
    assert cure in str(caught.value)


def test_own_keywords_and_unknown_ones_go_through():
    square = autodiff.value_and_grad(lambda x: (x * x, "aux"), has_aux=True)
    (value, aux), gradient = square(it.asarray(3.0))
    assert (value.item(), aux, gradient.item()) == (9.0, "aux", 6.0)
    with pytest.raises(TypeError, match="nonsense"):
        autodiff.grad(it.sum, nonsense=1)  # type: ignore[call-arg]


def test_arguments_without_influence_have_a_gradient_of_zeros():
    """What the answer for `allow_unused` says."""
    first, second = autodiff.grad(lambda x, y: it.sum(x), (0, 1))(it.ones(2), it.ones(3))
    assert (first.tolist(), second.tolist()) == ([1.0, 1.0], [0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "name", ["grad", "value_and_grad", "jacobian", "hessian", "vmap", "checkpoint"]
)
@pytest.mark.parametrize("given", [it.ones(3), 2.0, [it.ones(2)], {"w": it.ones(1)}], ids=str)
def test_the_arguments_go_to_the_function_that_a_transform_gives(name: str, given: Any):
    """PyTorch's `jacobian(f, x)` and `checkpoint(f, x)` are calls of it."""
    with pytest.raises(OperandError, match=rf"^{name}: got .*: {name}\(f\)\(x\)"):
        getattr(autodiff, name)(it.sum, given)
    for keyword in ("argnums", "in_axes", "out_axes"):
        if keyword in inspect.signature(getattr(autodiff, name)).parameters:
            with pytest.raises(OperandError, match=f"^{name}: got "):
                getattr(autodiff, name)(it.sum, **{keyword: given})


def test_what_chooses_arguments_may_be_nested():
    x = it.asarray([[1.0, 2.0]])
    axes = ({"a": 0, "b": (1, None)},)
    rows = autodiff.vmap(lambda t: t["a"] * t["b"][1], in_axes=axes)({"a": x, "b": (x.T, 2.0)})
    assert rows.tolist() == [[2.0, 4.0]]
    assert autodiff.grad(lambda x, y: it.sum(x * y), (0, -1))(x, x)[1].tolist() == x.tolist()

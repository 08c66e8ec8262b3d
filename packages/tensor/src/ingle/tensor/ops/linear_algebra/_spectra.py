"""What the two rooms of eigenvalues share: an operation with vectors, one of the values alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ...contract import Aval
from ...dispatch import run
from ...dtypes import DType
from ...operation import Op, Operation
from ...sample import Draw, Sample
from ._matrices import DECOMPOSITION, check_dtype

if TYPE_CHECKING:
    from ...tensor import Tensor

Dtypes = Callable[[DType], DType]
"""A result's dtype from that of the matrices."""


def with_vectors(
    public: Callable[..., Any],
    *,
    dtypes: tuple[Dtypes, Dtypes],
    vjp: Callable[..., Any],
    samples: Callable[[Any, Draw], Iterator[Sample]],
    view: Callable[[Any, Any], Any],
    reference: Callable[..., Any],
) -> Op:
    """The operation of eigenvalues and eigenvectors.

    Args:
        public: the function that users call.
        dtypes: of values and vectors.
        vjp: the gradient rule.
        samples: inputs, given how to look at results.
        view: what of values and vectors is determined.
        reference: for float64 arrays.
    """
    name = public.__name__

    def rule(x: Aval) -> tuple[Aval, Aval]:
        check_dtype(name, x)
        return Aval(x.shape[:-1], dtypes[0](x.dtype)), Aval(x.shape, dtypes[1](x.dtype))

    return Operation(
        name,
        tensors=("x",),
        outputs=("w", "v"),
        rule=rule,
        traits=DECOMPOSITION,
        vjp={"x": vjp},
        batch=(),
        public=public,
        samples=partial(samples, view),
        reference=reference,
    ).op()


def values_alone(
    public: Callable[..., Any],
    whole: Op,
    *,
    dtype: Dtypes,
    samples: Callable[[Any, Draw], Iterator[Sample]],
    reference: Callable[..., Any],
) -> Op:
    """The operation of the eigenvalues without vectors; its body is that with vectors, `whole`."""
    name = public.__name__

    def rule(x: Aval) -> Aval:
        check_dtype(name, x)
        return Aval(x.shape[:-1], dtype(x.dtype))

    def body(x: Tensor) -> Tensor:
        return run(whole, (x._handle,))[0]

    return Operation(
        name,
        tensors=("x",),
        rule=rule,
        traits=DECOMPOSITION,
        body=body,
        batch=(),
        public=public,
        samples=partial(samples, None),
        reference=reference,
    ).op()

"""Values and shapes at the ends, in each kernel: NaN and infinities, nothing, and a single element.

Variations of samples have these by chance. Here each kernel meets each of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor, asarray, device
from ingle.tensor.errors import IngleError
from ingle.tensor.operation import Operation

from .cases import Case, Subject, cases
from .checks import Findings
from .oracle import check_values, takes
from .running import FAULTS, NothingToCheckError, run_case
from .traps import SAMPLES
from .trees import fill_arrays
from .variation import Shape, Variation, varied

DRAWS = 3
"""How often the places of special values are drawn for a sample."""
PLACES = 3
"""How many special values an array gets."""
KINDS = ("elementwise", "reduction", "movement")
"""Of operations in which it follows from the element what becomes of NaN and infinity."""
VALUES = {"NaN": (np.nan,), "infinities": (np.inf, -np.inf), "zeros": (0.0, -0.0)}
_FEW: dict[str, Callable[[Shape], Shape]] = {
    "of no axes": lambda shape: (),
    "of no elements": lambda shape: (0,),
    "of no rows": lambda shape: (0, 3),
    "of no columns": lambda shape: (3, 0),
    "of one element": lambda shape: (1, 1),
}


def native(subject: Subject) -> bool:
    """Whether backends have a kernel for an operation, or may have one that takes any numbers."""
    if not isinstance(subject, Operation):
        return False
    traits = subject.traits
    return subject.body is None or bool(traits.family) or traits.kind in KINDS


def takes_special_values(subject: Subject) -> bool:
    """Whether it follows from the operation what becomes of NaN, in a kernel of its own."""
    return native(subject) and subject.traits.kind in (*KINDS, "contraction")


def check_special_values(operation: Subject, where: str) -> None:
    """NaN, infinities and zeros in the operands come out as they do of the reference.

    Args:
        operation: one of which `takes_special_values` is true.
        where: the device.
    """
    findings = Findings(f"{operation.name} on {where}")
    # What becomes of infinities in a sum of products hangs on the way it is made.
    for name in VALUES if operation.traits.kind in KINDS else ("NaN",):
        with findings.at(name):
            for case in itertools.islice(cases(operation, "float32"), SAMPLES):
                if case.sample.special:
                    for strewn in _strewn(case, VALUES[name]):
                        _judge(strewn, where)
    findings.close()


def _strewn(case: Case, values: Sequence[float]) -> Iterator[Case]:
    """The case with special values in one of its arrays, and in all of them."""
    rng = np.random.default_rng(1)
    floats = [n for n, a in enumerate(case.arrays) if a.dtype.kind == "f" and a.size]
    if case.operation.traits.kind == "contraction":
        # Beyond the edge of an image a weight meets zeros, or nothing: NaN, or no NaN.
        floats = [n for n in floats if n == 0]
    for numbers in [*[[n] for n in floats], *[floats][len(floats) < 2 :]]:
        for _ in range(DRAWS):
            arrays = [a.copy() for a in case.arrays]
            for n in numbers:
                flat = arrays[n].reshape(-1)
                flat[rng.integers(0, flat.size, PLACES)] = rng.choice(values, PLACES)
            args, kwargs = fill_arrays(case.tree(), arrays)
            sample = replace(case.sample, args=args, kwargs=kwargs, gradient=False)
            yield replace(case, sample=sample)


def check_few_elements(operation: Subject, where: str) -> None:
    """Operands without an axis, without an element, and of a single one.

    Args:
        operation: one of which `native` is true.
        where: the device.
    """
    findings = Findings(f"{operation.name} on {where}")
    for name, case in _of_few(operation):
        with findings.at(name):
            _judge(case, where)
    findings.close()


def check_calls_of_few(where: str) -> None:
    """Calls whose samples cannot have these shapes, and what is computed of nothing.

    Args:
        where: the device.
    """
    findings = Findings(f"few elements on {where}")
    for name, (compute, expected) in _few_calls(where).items():
        with findings.at(name):
            got = compute().numpy()
            assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
            assert np.array_equal(got, expected), f"got {got}, expected {expected}"
    findings.close()


def _of_few(operation: Subject) -> Iterator[tuple[str, Case]]:
    """Its samples with other shapes: any for elementwise operations, no batch for the others."""
    shapes = _FEW if operation.traits.kind == "elementwise" else {"no batch": lambda s: (0, *s)}
    for name, reshaped in shapes.items():
        for number in range(SAMPLES):
            how = Variation(number, 2, lambda n: n, reshaped, statics=False, special=0)
            case = varied(operation, "float32", how)
            if case is not None and case.arrays:
                yield f"{name}, sample {number}", case


def _few_calls(where: str) -> dict[str, tuple[Callable[[], Tensor], np.ndarray]]:
    none, one = np.zeros((3, 0), np.float32), np.array(2.5, np.float32)
    empty, single = asarray(none, device=where), asarray(one, device=where)
    nothing = asarray(np.zeros(0, np.int64), device=where)
    with device(where):
        zeros = np.zeros
        return {
            "full of no axes": (lambda: it.full((), 3.0, device=where), np.array(3.0)),
            "full of no elements": (lambda: it.full((0, 2), 3.0, device=where), zeros((0, 2))),
            "arange of none": (lambda: it.arange(0, device=where), zeros(0)),
            "astype of no axes": (lambda: single.astype("int32"), np.array(2)),
            "astype of no elements": (lambda: empty.astype("int32"), none),
            "sum of no axes": (lambda: it.sum(single), one),
            "sum of none": (lambda: it.sum(empty, axis=1), zeros(3)),
            "prod of none": (lambda: it.prod(empty, axis=1), np.ones(3)),
            "all of none": (lambda: it.all(empty > 0.0, axis=1), np.ones(3, bool)),
            "product of two vectors": (lambda: it.reshape(single, (1,)) @ it.ones(1, device=where),
                                       one),
            "product over none": (lambda: empty @ empty.mT, zeros((3, 3))),
            "take of none": (lambda: it.take(empty, nothing, axis=1), none),
            "reshape to no axes": (lambda: it.reshape(it.reshape(single, (1, 1)), ()), one),
            "broadcast_to of no axes": (
                lambda: it.broadcast_to(single, (2, 3)), np.full((2, 3), one),
            ),
            "broadcast_to of none": (lambda: it.broadcast_to(empty, (2, 3, 0)), zeros((2, 3, 0))),
            "broadcast_to none": (lambda: it.broadcast_to(single, (3, 0)), none),
            "concat with none": (lambda: it.concat([empty, it.ones((3, 1), device=where)], axis=1),
                                 np.ones((3, 1))),
            "slice of none": (lambda: it.ones((3, 4), device=where)[:, 2:2], none),
            "transpose of none": (lambda: empty.mT + 1.0, none.T),
            "sort of none": (lambda: it.sort(empty, axis=0), none),
            "assignment of none": (lambda: _assigned(where), np.ones(3)),
        }  # fmt: skip


def _assigned(where: str) -> Tensor:
    x = it.ones(3, device=where)
    x[2:2] = 5.0
    return x


def _judge(case: Case, where: str) -> None:
    """Compares a call with the reference, where both take it."""
    try:
        run = run_case(case, where)
        for result in run.results:
            result.numpy()
    except FAULTS:
        raise
    except (IngleError, NothingToCheckError):
        return  # it is refused
    if takes(case, run.results):
        check_values(case, run.results, run.capture.operations)

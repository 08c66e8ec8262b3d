"""The contract as tests: derive a class from `BackendContract`, name the device, run pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar, TypeVar

import pytest

from ingle.tensor.dtypes import STORAGE_DTYPES

from . import (
    basics,
    checks,
    corners,
    error_bounds,
    huge,
    integers,
    override_policy,
    own_memory,
    program_generator,
    properties,
    storage,
    training,
    traps,
    wrong_calls,
)
from .cases import TIERS, Case, Subject, Tier, cases, differentiable, is_composite, subjects
from .running import host_allowed
from .torch_oracle import COUNTERPARTS, check_against_torch

F = TypeVar("F", bound=Callable[..., Any])


def overrides(reason: str) -> Callable[[F], F]:
    """Marks a test that replaces a standard one, with the reason.

    >>> from ingle.testkit import BackendContract, overrides
    >>> class Mine(BackendContract):
    ...     device = "numpy"
    ...     @overrides("the device has no cells of its own")
    ...     def test_training(self): ...
    """

    def mark(function: F) -> F:
        function.override_reason = reason  # type: ignore[attr-defined]
        return function

    return mark


_SELECTED: dict[str, Callable[[Subject], bool]] = {
    "test_expanded": is_composite,
    "test_gradient": differentiable,
    "test_expanded_gradient": is_composite,
    "test_second_derivative": differentiable,
    "test_weak_scalars": lambda o: o.traits.family == "binary",
    "test_special_values": corners.takes_special_values,
    "test_few_elements": corners.native,
    "test_against_torch": lambda o: o.name in COUNTERPARTS,
}
"""Which operations a test is about; all of them if it is not named here."""

_THOROUGH = {
    "test_layouts", "test_expanded_gradient", "test_second_derivative", "test_against_torch",
    "test_special_values", "test_few_elements",
}  # fmt: skip


class BackendContract:
    """What every backend must pass.

    Attributes:
        device: the name of the device to check.
        unsupported: what it cannot do, with a reason for each. A key is a dtype (`"float64"`), an
            operation (`"sort"`) or both (`"sort:complex64"`). A key that names nothing, or
            something that works, fails.
        tier: how much is checked, a name in `TIERS`; empty: what `--tier` says.
        every: how many-th operations alone are checked, others by other tests; more than 1 where
            compiling takes long and a run of another class checks them all.
        own_memory: whether the device has memory of its own, so that uploads, views, streams and
            late errors are checked as such devices need it.
        huge: whether there is room for a check of arrays of more than 2^31 elements: 6 GiB on the
            device, 2 GiB on the host.
        several: names of two or more devices of the backend, to check moves between them.
        memory_limit: how many bytes the device has at most, to check what happens beyond.
        lose: what makes the device be lost, on one that can be spared: it is lost for good.
    """

    device: ClassVar[str] = ""
    tier: ClassVar[str] = ""
    unsupported: ClassVar[Mapping[str, str]] = {}
    every: ClassVar[int] = 1
    own_memory: ClassVar[bool] = False
    huge: ClassVar[bool] = False
    several: ClassVar[Sequence[str]] = ()
    memory_limit: ClassVar[int | None] = None
    lose: ClassVar[Callable[[], None] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        override_policy.refuse_silenced_checks(cls, BackendContract)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        tier = TIERS[self.tier or metafunc.config.getoption("--tier", "standard")]
        name = metafunc.function.__name__
        if "operation" in metafunc.fixturenames:
            chosen = self._chosen(name, tier)
            metafunc.parametrize("operation", chosen, ids=[o.name for o in chosen])
        if "tier" in metafunc.fixturenames:
            metafunc.parametrize("tier", [tier], ids=[pytest.HIDDEN_PARAM])
        if "dtype" in metafunc.fixturenames:
            metafunc.parametrize("dtype", [d for d in tier.dtypes if d not in self.unsupported])
        if "stored" in metafunc.fixturenames:
            names = [d.name for d in STORAGE_DTYPES if d.name not in self.unsupported]
            metafunc.parametrize("stored", names)
        if "integer" in metafunc.fixturenames:
            metafunc.parametrize(
                "integer", [d for d in integers.NUMBERS if d not in self.unsupported]
            )
        if "exception" in metafunc.fixturenames:
            metafunc.parametrize("exception", list(self.unsupported))

    def _chosen(self, test: str, tier: Tier) -> list[Subject]:
        if test == "test_room":
            return subjects()
        if test in _THOROUGH and not tier.thorough:
            return []
        if test == "test_against_torch" and find_spec("torch") is None:
            return []
        fits = _SELECTED.get(test, bool)
        found = [
            o for o in subjects()
            if o.public and o.samples and o.reference and o.name not in self.unsupported and fits(o)
        ]  # fmt: skip
        return found[len(test) % self.every :: self.every]

    def _cases(self, operation: Subject, tier: Tier, dtypes: tuple[str, ...]) -> Iterator[Case]:
        for dtype in dtypes:
            if dtype in self.unsupported or f"{operation.name}:{dtype}" in self.unsupported:
                continue
            for seed in range(tier.seeds):
                yield from cases(operation, dtype, seed)

    def _check(
        self,
        check: Callable[..., None],
        operation: Subject,
        tier: Tier,
        *,
        dtypes: tuple[str, ...] | None = None,
        gradient: bool = False,
        **options: Any,
    ) -> int:
        findings = checks.Findings(f"{operation.name} on {self.device}")
        for case in self._cases(operation, tier, dtypes or tier.dtypes):
            if gradient and not (case.sample.gradient and case.dtype.is_inexact):
                continue
            with findings.at(case.name), host_allowed():
                check(case, self.device, **options)
        findings.close()
        return findings.checked

    # The contract itself.

    def test_protocol(self) -> None:
        """The backend has the contract's methods, version, level and device."""
        basics.check_protocol(self.device)

    def test_round_trip(self, dtype: str) -> None:
        """Arrays of any layout come back from the device with the same bits."""
        basics.check_round_trip(self.device, dtype)

    def test_storage(self, stored: str) -> None:
        """Dtypes that only store values come, go, are cast and moved."""
        with host_allowed():
            storage.check_storage(self.device, stored)

    def test_devices_are_told_apart(self) -> None:
        """Tensors made without a device live on the default one; unknown devices are errors."""
        basics.check_selection(self.device)

    def test_threads(self) -> None:
        """Two threads get what one gets."""
        basics.check_threads(self.device)

    # What small samples do not show.

    def test_results_are_apart(self) -> None:
        """A result keeps its values when the operation runs again on others."""
        with host_allowed():
            traps.check_results_are_apart(self.device, self.unsupported)

    def test_writes_in_place(self) -> None:
        """A result and its operand keep their values when somebody assigns to the other."""
        with host_allowed():
            traps.check_writes_in_place(self.device)

    def test_repeats(self) -> None:
        """Long sums have the same bits each time."""
        with host_allowed():
            traps.check_repeats(self.device)

    def test_calls_of_few(self) -> None:
        """Nothing is computed of nothing, and one value of one."""
        with host_allowed():
            corners.check_calls_of_few(self.device)

    def test_large(self) -> None:
        """Each kernel is right beyond 4,096 elements, too."""
        with host_allowed():
            traps.check_large(self.device, self.unsupported)

    def test_integers(self, integer: str) -> None:
        """Integers keep all of their bits, and wrap around where they leave their dtype."""
        with host_allowed():
            integers.check_integers(self.device, integer, self.unsupported)

    def test_signed_zeros(self) -> None:
        """What is exact keeps the sign of a zero."""
        with host_allowed():
            traps.check_signed_zeros(self.device)

    def test_edges(self) -> None:
        """Comparisons and casts are exact for NaN, the ends of dtypes and what lies in between."""
        with host_allowed():
            traps.check_edges(self.device, self.unsupported)

    def test_indices_out_of_range(self) -> None:
        """They are errors, and never clamped in silence."""
        self._unless("int64")
        with host_allowed():
            traps.check_indices(self.device)

    def _unless(self, key: str) -> None:
        if key in self.unsupported:
            pytest.skip(f"{key}: {self.unsupported[key]}")

    # What a device with memory of its own declares.

    def test_uploads(self) -> None:
        """Arrays that change right after the upload, large ones, odd layouts."""
        self._declared("own_memory")
        own_memory.check_uploads(self.device)

    def test_views(self) -> None:
        """Views with offsets into one buffer."""
        self._declared("own_memory")
        own_memory.check_views(self.device)

    def test_streams(self) -> None:
        """Work of several threads on shared values."""
        self._declared("own_memory")
        own_memory.check_streams(self.device)

    def test_late_errors(self) -> None:
        """An error that comes late comes to whoever reads, and to nobody else."""
        self._declared("own_memory")
        own_memory.check_late_errors(self.device)

    def test_huge(self) -> None:
        """Elements behind the first 2^31 are like others."""
        self._declared("huge")
        huge.check_huge(self.device)

    def test_several_devices(self) -> None:
        """Values move between the backend's devices, with their gradients."""
        self._declared("several")
        own_memory.check_several(self.several)

    def test_out_of_memory(self) -> None:
        """More than the device has is an error, and the device goes on."""
        self._declared("memory_limit")
        own_memory.check_out_of_memory(self.device, self.memory_limit or 0)

    def _declared(self, name: str) -> None:
        if not getattr(type(self), name):
            pytest.skip(f"{type(self).__name__}.{name} is not declared")

    # Every operation.

    def test_room(self, operation: Subject) -> None:
        """An operation brings a public function, samples that work, and a reference."""
        lacks = [n for n in ("public", "samples", "reference") if getattr(operation, n) is None]
        assert not lacks, f"the room of {operation.name} lacks {', '.join(lacks)}"
        drawn = (case for d in TIERS["full"].dtypes for case in cases(operation, d))
        assert any(True for _ in drawn), f"the samples of {operation.name} are empty in every dtype"

    def test_forward(self, operation: Subject, tier: Tier) -> None:
        """Values, dtypes, shapes; untouched inputs; the same bits again."""
        self._check(checks.check_forward, operation, tier)

    def test_expanded(self, operation: Subject, tier: Tier) -> None:
        """A composite's body gives what the whole gives."""
        self._check(checks.check_forward, operation, tier, expand=operation)

    def test_layouts(self, operation: Subject, tier: Tier) -> None:
        """Results do not depend on how the inputs lie in memory."""
        self._check(
            checks.check_layouts, operation, tier, dtypes=("float32", "int32", "bool")
        )  # fmt: skip

    def test_variations(self, operation: Subject, tier: Tier) -> None:
        """Other sizes, layouts, dtypes and special values than the samples have."""
        dtypes = [
            d for d in tier.dtypes
            if not {d, f"{operation.name}:{d}"} & self.unsupported.keys()
        ]  # fmt: skip
        with host_allowed():
            tally = properties.check(operation, self.device, dtypes, tier.variations)
        made = tally.total()
        assert tally["checked"] >= made // 10, (
            f"of {made} variations of its samples only {tally['checked']} made sense ({tally}): "
            "let them ask for sizes with `draw.size` or `draw.shape`"
        )

    def test_special_values(self, operation: Subject) -> None:
        """NaN, infinities and zeros come out as of the reference."""
        with host_allowed():
            corners.check_special_values(operation, self.device)

    def test_few_elements(self, operation: Subject) -> None:
        """Operands without an axis, without an element, and of a single one."""
        with host_allowed():
            corners.check_few_elements(operation, self.device)

    def test_weak_scalars(self, operation: Subject, tier: Tier) -> None:
        """A number next to a tensor never changes its precision."""
        basics.check_weak_scalars(operation, self.device, [
            d for d in tier.dtypes
            if not {d, f"{operation.name}:{d}"} & self.unsupported.keys()
        ])  # fmt: skip

    def test_wrong_calls(self, operation: Subject) -> None:
        """Bad arguments are errors of Ingle that name the operation."""
        with host_allowed():
            wrong_calls.check(operation, self.device)

    # Gradients.

    def test_gradient(self, operation: Subject, tier: Tier) -> None:
        """Gradients against finite differences of the reference."""
        self._check(checks.check_first_order, operation, tier, dtypes=tier.gradients, gradient=True)

    def test_expanded_gradient(self, operation: Subject, tier: Tier) -> None:
        """The gradient through a composite's body."""
        self._check(
            checks.check_first_order, operation, tier, dtypes=tier.gradients, gradient=True,
            expand=operation,
        )  # fmt: skip

    def test_second_derivative(self, operation: Subject, tier: Tier) -> None:
        """Gradients of gradients against differences of gradients."""
        self._check(
            checks.check_second_order, operation, tier, dtypes=("float64", "complex128"),
            gradient=True,
        )  # fmt: skip

    def test_against_torch(self, operation: Subject, tier: Tier) -> None:
        """Values and gradients against PyTorch's, where it is installed."""
        dtype = "float32" if "float64" in self.unsupported else "float64"
        count = self._check(check_against_torch, operation, tier, dtypes=(dtype,))
        assert count, f"PyTorch takes none of the calls of {operation.name}: mend `COUNTERPARTS`"

    # The whole.

    def test_cells(self) -> None:
        """Cells on the device: writes, transactions, gradients by cell."""
        training.check_cells(self.device)

    def test_training(self) -> None:
        """A small net learns the same numbers as plain NumPy does."""
        training.check_training(self.device)

    @pytest.mark.parametrize("kind", ["float32", "bfloat16", "int32"])
    @pytest.mark.parametrize("gradient", [False, True], ids=["values", "gradients"])
    def test_programs(self, kind: str, gradient: bool, tier: Tier) -> None:
        """Random programs of many calls are as right as NumPy is operation by operation."""
        if kind in self.unsupported or kind not in tier.dtypes or (gradient and kind == "int32"):
            pytest.skip(f"{kind} is left out")
        calls = (3, 20) if gradient else (5, 40)
        with host_allowed():
            for seed in range(tier.programs):
                program = program_generator.random_program(
                    seed, dtype=kind, gradient=gradient, calls=calls, pieces=seed % 2 == 1
                )
                error_bounds.check(program, self.device)

    # Honesty.

    def test_exceptions_are_needed(self, exception: str) -> None:
        """What is declared as unsupported has a reason and indeed does not work."""
        override_policy.check_exception(self.device, exception, self.unsupported[exception])

    def test_overrides_have_reasons(self) -> None:
        """Standard tests are replaced only with a stated reason."""
        override_policy.check_overrides(type(self), BackendContract)

    # Last, since nothing runs on the device afterwards.

    def test_loss(self) -> None:
        """A device that is gone says so at every use."""
        self._declared("lose")
        lose = type(self).__dict__.get("lose", type(self).lose)
        own_memory.check_loss(self.device, getattr(lose, "__func__", lose))

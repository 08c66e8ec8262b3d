"""The device that tests run on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nest_machine import Machine

from ingle.fusion.device.kernels import Nest, units
from ingle.fusion.device.opencl import groups_of_unit
from ingle.tensor import plugins
from ingle.tensor.device import Device, backend_of
from ingle.tensor.hooks import hookimpl

HERE = Path(__file__).parent
FLAT = (
    "core_operations", "comparisons", "casts", "half_types", "shifts", "composites", "bits_scalars",
    "overwrite",
)  # fmt: skip
"""In names of tests whose kernels have no rows: both families have the same source for them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a driver there is nothing to test but that this is said."""
    own = [item for item in items if item.path.is_relative_to(HERE)]
    left_out = {i for i in own if "[wide" in i.name and any(f in i.name for f in FLAT)}
    items[:] = [item for item in items if item not in left_out]
    reason = missing()
    if reason:
        for item in own:
            if "without_a_driver" not in item.name:
                item.add_marker(pytest.mark.skip(reason=reason))


def missing() -> str:
    """Why there is no device; empty if there is one."""
    try:
        from ingle_opencl.devices import found
    except ImportError as error:
        return f"ingle-opencl is not installed: {error}"
    return "" if found() else "there is no OpenCL device"


@pytest.fixture(scope="session")
def backend() -> Any:
    """The backend of the first device, without fusion."""
    return backend_of("opencl").inner


class OpenCLMachine(Machine):
    """Nests whose ranges of units begin where the test says."""

    def run(
        self, nest: Nest, sizes: Sequence[int], pointers: Sequence[int], args: Sequence[int],
        numbers: Sequence[int], parts: int,
    ) -> None:  # fmt: skip
        """In some parts one after the other, of three units a work item; vectors at once, which
        work items take by their own numbers."""
        backend = self.backend
        if backend.wide and backend.work_of(nest, sizes).grain > 1:
            super().run(nest, sizes, pointers, args, numbers, parts)
            return
        table, count = backend.table(args), units(nest, sizes)
        for part in range(parts):
            first, last = count * part // parts, count * (part + 1) // parts
            if first < last:
                given = np.array([*[0] * len(pointers), *numbers, 0, first, last, 3], np.int64)
                group = backend.work_of(nest, sizes).group
                items = (-(-(last - first) // 3),)
                if group is not None:
                    shares = groups_of_unit(nest, sizes[-2]) if nest.outer else 1
                    items = (items[0] * shares * group[0],)
                backend.enqueue(backend.kernel(nest), pointers, table, given, items, group)


class WidePlugin:
    """A plugin of one device: the first of OpenCL, as if its work items were many and small."""

    def __init__(self) -> None:
        from ingle_opencl.backend import OpenCLBackend
        from ingle_opencl.devices import device_of

        self.backend = OpenCLBackend(Device("opencl_wide"), device_of(0), wide=True)
        self.description = plugins.BackendDescription(
            create=lambda index: self.backend.composition(),
            priority=-100,
            summary="the kernels of GPUs on any OpenCL device",
        )

    @hookimpl
    def ingle_backends(self) -> dict[str, str]:
        return {"opencl_wide": f"{__name__}:wide_description"}


@pytest.fixture(scope="session")
def wide_backend() -> Iterator[Any]:
    """The backend of the device `opencl_wide`, which is installed for as long."""
    plugin = WidePlugin()
    module = sys.modules[__name__]
    module.wide_description = plugin.description  # type: ignore[attr-defined]
    plugins.register("opencl_wide", plugin)
    yield plugin.backend
    plugins.unregister("opencl_wide")


@pytest.fixture(scope="session", params=["narrow", "wide"])
def machine(request: pytest.FixtureRequest) -> OpenCLMachine:
    wide = request.param == "wide"
    return OpenCLMachine(request.getfixturevalue("wide_backend" if wide else "backend"))

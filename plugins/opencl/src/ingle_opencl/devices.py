"""OpenCL devices of this machine: in which order they are numbered, and what each can do."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ingle.tensor.errors import BackendError

_FMA, _SOFT, _ROUNDED = 1 << 5, 1 << 6, 1 << 7
"""Of `CL_DEVICE_SINGLE_FP_CONFIG`: FMA, SOFT_FLOAT, CORRECTLY_ROUNDED_DIVIDE_SQRT."""
_GPU, _ACCELERATOR, _CPU = 0, 1, 2


class Limits(NamedTuple):
    """What kernels may ask of a device.

    Attributes:
        processors: compute units.
        gpu: whether it is one, or an accelerator, where work items should be many and small.
        float64: whether it computes in it.
        largest: bytes that one buffer may have.
        total: bytes of the device's memory.
        parameters: bytes of a kernel's arguments.
        local: bytes of local memory of a work group.
        group: work items of the largest work group.
        exact: whether division and square roots of float32 are rounded correctly.
        fma: whether a product and a sum rounded once are one instruction.
        alignment: bytes of which the start of a part of a buffer is a multiple.
        register: bits of a vector register.
    """

    processors: int
    gpu: bool
    float64: bool
    largest: int
    total: int
    parameters: int
    local: int
    group: int
    exact: bool
    fma: bool
    alignment: int
    register: int


@cache
def found() -> tuple[Any, ...]:
    """The devices: GPUs first, then accelerators, then processors."""
    try:
        import pyopencl as cl
    except ImportError as error:
        raise BackendError(
            f"pyopencl cannot be loaded ({error}); try: pip install --force-reinstall pyopencl"
        ) from error
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # PLATFORM_NOT_FOUND_KHR: a loader without a driver
        return ()
    devices = []
    for platform in platforms:
        try:
            devices += [d for d in platform.get_devices() if d.available and d.compiler_available]
        except cl.Error:  # a platform without devices
            continue
    return tuple(sorted(devices, key=_rank))


def _rank(device: Any) -> int:
    import pyopencl as cl

    if device.type & cl.device_type.GPU:
        return _GPU
    return _ACCELERATOR if device.type & cl.device_type.ACCELERATOR else _CPU


def device_of(index: int) -> Any:
    """The device with a number.

    Raises:
        BackendError: there are not so many.
    """
    devices = found()
    if index >= len(devices):
        names = ", ".join(f"opencl:{i} ({d.name.strip()})" for i, d in enumerate(devices))
        raise BackendError(f"there is no device opencl:{index}; there are: {names or 'none'}")
    return devices[index]


def limits_of(device: Any) -> Limits:
    """What a device says of itself."""
    import pyopencl as cl

    return Limits(
        processors=device.max_compute_units,
        gpu=_rank(device) != _CPU,
        float64=bool(device.double_fp_config),
        largest=device.max_mem_alloc_size,
        total=device.global_mem_size,
        parameters=device.max_parameter_size,
        local=device.local_mem_size if device.local_mem_type == cl.device_local_mem_type.LOCAL
        else 0,
        group=device.max_work_group_size,
        exact=bool(device.single_fp_config & _ROUNDED),
        fma=device.single_fp_config & (_FMA | _SOFT) == _FMA,
        alignment=max(device.mem_base_addr_align // 8, 1),
        register=32 * max(device.native_vector_width_float, 1),
    )  # fmt: skip

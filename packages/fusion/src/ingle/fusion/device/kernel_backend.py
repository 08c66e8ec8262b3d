"""The base of backends that only compile source code and launch it."""

from ..runtime.address_space import AddressSpace as AddressSpace
from ..runtime.kernel_backend import KernelBackend as KernelBackend
from ..runtime.kernel_backend import MemoryHandle as MemoryHandle
from ..runtime.kernel_backend import StridedHandle as StridedHandle
from ..runtime.pooled_memory import Held as Held

"""The base of backends that only compile source code and launch it.

A backend says how source is compiled and launched and how memory is made; all the rest is here.
`examples/third_party_compiler` is one.

>>> from ingle.fusion.device.kernel_backend import AddressSpace, KernelBackend
>>> [name for name in ("compile_source", "launch") if callable(getattr(KernelBackend, name))]
['compile_source', 'launch']
>>> buffers = AddressSpace()  # for memory that a device knows by handles alone
>>> buffers.find(buffers.add("a buffer") + 8)
('a buffer', 8)
"""

from ..runtime.address_space import AddressSpace as AddressSpace
from ..runtime.kernel_backend import KernelBackend as KernelBackend
from ..runtime.kernel_backend import MemoryHandle as MemoryHandle
from ..runtime.kernel_backend import StridedHandle as StridedHandle
from ..runtime.pooled_memory import Held as Held

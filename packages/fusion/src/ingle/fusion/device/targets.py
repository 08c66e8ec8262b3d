"""Families of processors, as writers of LLVM IR must know them.

They stand apart from these (`ingle.fusion.device.llvm`), which a process that finds its kernels on
disk does without.

>>> from ingle.fusion.device.targets import AVX512, target_of
>>> target_of((), "aarch64").name, AVX512.width
('neon', 64)
"""

from ..render.llvm.targets import AVX512 as AVX512
from ..render.llvm.targets import NEON as NEON
from ..render.llvm.targets import Target as Target
from ..render.llvm.targets import target_of as target_of

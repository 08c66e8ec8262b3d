"""Nests as LLVM IR, and the tools to write more of it by hand.

>>> from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand
>>> from ingle.fusion.device.llvm import render
>>> from ingle.fusion.device.targets import AVX512
>>> b = CodeBuilder()
>>> code, (root,) = b.finish(b.append("neg", "float32", (b.load(0, "float32"),)))
>>> operands = Operand("float32"), Operand("float32", output=True)
>>> nest = Nest(1, operands, (), (Map(code, ((1, root),)),))
>>> source = render(nest, "negative", AVX512)
>>> "fneg <16 x float>" in source
True
"""

from ..render.llvm.code import CodeRenderer as CodeRenderer
from ..render.llvm.source import render as render
from ..render.llvm.text import Values as Values
from ..render.llvm.text import Writer as Writer
from ..render.llvm.text import memory_type as memory_type
from ..render.llvm.text import scalar_type as scalar_type
from ..render.llvm.text import suffix as suffix
from ..render.llvm.text import vector_type as vector_type

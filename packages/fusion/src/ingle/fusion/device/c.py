"""Nests as C, and what a language of the C family derives from.

>>> from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand
>>> from ingle.fusion.device.c import render
>>> b = CodeBuilder()
>>> code, (root,) = b.finish(b.append("neg", "float32", (b.load(0, "float32"),)))
>>> operands = Operand("float32"), Operand("float32", output=True)
>>> nest = Nest(1, operands, (), (Map(code, ((1, root),)),))
>>> source = render(nest, "negative")
>>> "= -x0_1;" in source
True
"""

from ..render.c.dialect import C11 as C11
from ..render.c.dialect import Dialect as Dialect
from ..render.c.source import render as render
from ..render.c.source import rendered as rendered

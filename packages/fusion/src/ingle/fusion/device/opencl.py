"""Nests as OpenCL C, and the parts that kernels written by hand call.

>>> from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand
>>> from ingle.fusion.device.opencl import render
>>> b = CodeBuilder()
>>> code, (root,) = b.finish(b.append("neg", "float32", (b.load(0, "float32"),)))
>>> operands = Operand("float32"), Operand("float32", output=True)
>>> nest = Nest(1, operands, (), (Map(code, ((1, root),)),))
>>> "get_global_id" in render(nest, "negative")
True
"""

from ..render.c.groups import groups_of_unit as groups_of_unit
from ..render.c.opencl import EPILOGUE as EPILOGUE
from ..render.c.opencl import MEMBER as MEMBER
from ..render.c.opencl import PREAMBLE as PREAMBLE
from ..render.c.opencl import for_launch as for_launch
from ..render.c.opencl import for_scatter as for_scatter
from ..render.c.opencl import render as render
from ..render.c.opencl import render_wide as render_wide
from ..render.c.opencl import rounded as rounded
from ..render.c.opencl import widened as widened
from ..render.c.opencl import widened_beside as widened_beside
from ..render.c.sorted_scatter import ScatterLaunch as ScatterLaunch
from ..render.c.source import rendered as rendered
from ..render.c.text import value_type as value_type
from ..render.c.work import Work as Work
from ..render.c.work import work_of as work_of

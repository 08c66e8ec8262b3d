"""Nests as CUDA C++, and how their units of work are cut.

>>> from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand
>>> from ingle.fusion.device.cuda import render
>>> b = CodeBuilder()
>>> code, (root,) = b.finish(b.append("neg", "float32", (b.load(0, "float32"),)))
>>> operands = Operand("float32"), Operand("float32", output=True)
>>> nest = Nest(1, operands, (), (Map(code, ((1, root),)),))
>>> "__global__" in render(nest, "negative")
True
"""

from ..render.c.block_vectors import sums_beside_maps as sums_beside_maps
from ..render.c.cuda import AFTER_OTHERS as AFTER_OTHERS
from ..render.c.cuda import ALONE_AFTER_OTHERS as ALONE_AFTER_OTHERS
from ..render.c.cuda import NEST as NEST
from ..render.c.cuda import PREAMBLE as PREAMBLE
from ..render.c.cuda import THREADS as THREADS
from ..render.c.cuda import at_once as at_once
from ..render.c.cuda import given_struct as given_struct
from ..render.c.cuda import most_at_once as most_at_once
from ..render.c.cuda import render as render
from ..render.c.cuda import render_many as render_many
from ..render.c.cuda import rounded as rounded
from ..render.c.cuda_launches import Grid as Grid
from ..render.c.cuda_launches import for_rows as for_rows
from ..render.c.cuda_launches import for_scatter as for_scatter
from ..render.c.cuda_launches import for_strides as for_strides
from ..render.c.cuda_launches import launch_of as launch_of
from ..render.c.cuda_launches import launches_beside as launches_beside
from ..render.c.epilogue_functions import EPILOGUE_FOUND as EPILOGUE_FOUND
from ..render.c.epilogue_functions import EPILOGUE_STORE as EPILOGUE_STORE
from ..render.c.epilogue_functions import EPILOGUE_VALUES as EPILOGUE_VALUES
from ..render.c.epilogue_functions import epilogue_functions as epilogue_functions
from ..render.c.held_lengths import sums_beside_rows as sums_beside_rows

"""The kernel IR, and the calls of kernels that an executable is made of.

A kernel that negates the rows of a matrix, and what it is made of:

>>> from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand, text, units
>>> b = CodeBuilder()
>>> code, (root,) = b.finish(b.append("neg", "float32", (b.load(0, "float32"),)))
>>> operands = Operand("float32"), Operand("float32", output=True)
>>> nest = Nest(1, operands, (), (Map(code, ((1, root),)),))
>>> print(text(code))
0: float32 load 0
1: float32 neg #0
>>> units(nest, (64, 1000))
64
"""

from ..kernel.code import DTYPES as DTYPES
from ..kernel.code import FLOATS as FLOATS
from ..kernel.code import HALVES as HALVES
from ..kernel.code import SIZES as SIZES
from ..kernel.code import Code as Code
from ..kernel.code import CodeBuilder as CodeBuilder
from ..kernel.code import Instruction as Instruction
from ..kernel.code import bits_of as bits_of
from ..kernel.code import text as text
from ..kernel.expression import Expression as Expression
from ..kernel.nest import BLOCK as BLOCK
from ..kernel.nest import Map as Map
from ..kernel.nest import Nest as Nest
from ..kernel.nest import Operand as Operand
from ..kernel.nest import Reduce as Reduce
from ..kernel.nest import Row as Row
from ..kernel.nest import accumulator_dtype as accumulator_dtype
from ..kernel.nest import in_blocks as in_blocks
from ..kernel.nest import is_copy as is_copy
from ..kernel.nest import is_flat as is_flat
from ..kernel.nest import layout as layout
from ..kernel.nest import units as units
from ..lowering.contraction import ContractionCall as ContractionCall
from ..lowering.contraction import Windows as Windows
from ..lowering.epilogue import Epilogue as Epilogue
from ..lowering.epilogue import epilogue_nest as epilogue_nest
from ..lowering.epilogue import epilogue_of as epilogue_of
from ..lowering.nests import NestCall as NestCall
from ..lowering.operands import Argument as Argument
from ..passes.aligned_rows import FEWEST_ALIGNED as FEWEST_ALIGNED
from ..passes.aligned_rows import LINE as LINE
from ..passes.aligned_rows import aligned_size as aligned_size
from ..passes.convolutions import WindowProblem as WindowProblem

"""What a backend with kernels takes from fusion: plans, the protocol of devices, their tools.

Plugins import from here, from `ingle.fusion`, and from nowhere else in fusion. All of this is
loaded with fusion itself; what a first small operation can do without stands in modules beside.

What a device is asked, and what it says of its speed:

>>> from ingle.fusion.device import DESKTOP, KernelDevice, Rates, axes_by_strides
>>> from ingle.tensor.device import backend_of
>>> cpu = backend_of("cpu").inner
>>> isinstance(cpu.rates, Rates), cpu.takes_whole.__name__ in dir(KernelDevice)
(True, True)
>>> DESKTOP.seconds(nbytes=1e9, flops=0.0) > DESKTOP.seconds(nbytes=1e6, flops=0.0)
True
>>> axes_by_strides((2, 3), (1, 2))  # the axes in the order in which elements lie in memory
(1, 0)
"""

from ..fusion import Fusion as Fusion
from ..grouping.legality import Legality as Legality
from ..ir.graph import Graph as Graph
from ..ir.scalar_program import ScalarProgram as ScalarProgram
from ..ir.views import View as View
from ..ir.views import axes_by_strides as axes_by_strides
from ..passes.convolutions import WindowProblem as WindowProblem
from ..passes.decompose import avals_of as avals_of
from ..pipeline import any_size_plan as any_size_plan
from ..record.log import Inputs as Inputs
from ..runtime.any_size_plan import AnySizePlan as AnySizePlan
from ..runtime.any_size_plan import SizedCall as SizedCall
from ..runtime.any_size_plan import SizedPlan as SizedPlan
from ..runtime.any_size_plan import SizedRun as SizedRun
from ..runtime.custom_kernels import CustomKernel as CustomKernel
from ..runtime.custom_kernels import custom_kernel_of as custom_kernel_of
from ..runtime.custom_kernels import forget_at_registrations as forget_at_registrations
from ..runtime.custom_kernels import has_custom_kernel as has_custom_kernel
from ..runtime.custom_kernels import nest_kernel as nest_kernel
from ..runtime.custom_kernels import register_kernel as register_kernel
from ..runtime.custom_kernels import register_lowering as register_lowering
from ..runtime.custom_kernels import registrations as registrations
from ..runtime.device import BufferOffset as BufferOffset
from ..runtime.device import KernelDevice as KernelDevice
from ..runtime.device import Launch as Launch
from ..runtime.device import NativeExecutable as NativeExecutable
from ..runtime.device import Ordered as Ordered
from ..runtime.device import Turns as Turns
from ..runtime.graph_plans import GraphPlans as GraphPlans
from ..runtime.input_layouts import Layout as Layout
from ..runtime.input_layouts import as_in_memory as as_in_memory
from ..runtime.input_layouts import laid_out as laid_out
from ..runtime.input_layouts import layout_of as layout_of
from ..runtime.loops import Chunk as Chunk
from ..runtime.loops import LoopPlan as LoopPlan
from ..runtime.loops import has_pieces as has_pieces
from ..runtime.loops import loop_by_pieces as loop_by_pieces
from ..runtime.offers import Offer as Offer
from ..runtime.offers import taker as taker
from ..runtime.pending_checks import PendingChecks as PendingChecks
from ..runtime.plan import CompiledPlan as CompiledPlan
from ..runtime.plan_codegen import DonationState as DonationState
from ..runtime.plan_codegen import LinearPlan as LinearPlan
from ..runtime.plan_data import KernelRun as KernelRun
from ..runtime.programs import ProgramPlans as ProgramPlans
from ..runtime.scratch import Lender as Lender
from ..runtime.scratch import Lent as Lent
from ..runtime.sized_calls import SizedCalls as SizedCalls
from ..schedule.rates import DESKTOP as DESKTOP
from ..schedule.rates import PER_BYTE as PER_BYTE
from ..schedule.rates import Rates as Rates
from ..schedule.schedule import arguments_of as arguments_of
from ..schedule.whole_calls import WholeCall as WholeCall
from ..support.disk_store import DiskStore as DiskStore
from ..support.disk_store import disk as disk
from ..support.run_ahead import run_ahead_limit as run_ahead_limit
from ..support.settings import check_settings as check_settings
from ..support.settings import is_exact as is_exact
from ..support.settings import is_fused as is_fused
from ..support.settings import is_measured as is_measured
from ..support.source_location import Line as Line
from ..support.source_location import user_line as user_line
from ..support.switching import switching as switching
from ..support.time_slices import give_way as give_way
from ..support.time_slices import tick as tick
from ..symbolic.families import EXAMPLES as EXAMPLES
from ..symbolic.form import without_sizes as without_sizes
from ..symbolic.inquiry import example_of as example_of
from ..symbolic.inquiry import has_sizes as has_sizes
from ..symbolic.sequences import at_sizes as at_sizes
from ..symbolic.sequences import with_sizes as with_sizes

"""What a package that groups devices, as a router does, takes from fusion besides `Fusion`."""

from ingle.tensor.interruptions import is_from_outside as is_from_outside

from .device_group import DeviceGroup as DeviceGroup
from .device_group import PlannedPart as PlannedPart
from .ir.graph import Graph as Graph
from .ir.graph import Node as Node
from .record.log import LazyHandle as LazyHandle
from .record.log import current as current
from .runtime.plan_cache import Executable as Executable
from .runtime.plan_cache import prepare as prepare
from .runtime.replay import Replay as Replay
from .support.settings import is_fused as is_fused

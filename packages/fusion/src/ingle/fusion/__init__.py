"""Recording, plans and `compile`."""

from .ahead import run_ahead as run_ahead
from .compilation import Compiled as Compiled
from .compilation import compile as compile
from .errors import CompileError as CompileError
from .errors import GraphFormatError as GraphFormatError
from .errors import LeakError as LeakError
from .errors import PlanWarning as PlanWarning
from .explaining import Explanation as Explanation
from .explaining import explain as explain
from .explaining import graph_of as graph_of
from .fusion import Fusion as Fusion
from .serialization import dumps as dumps
from .serialization import loads as loads

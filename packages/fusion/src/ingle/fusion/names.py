"""Every name that `ingle.fusion` exports, one explicit line each."""

from .compiled.compile import Compiled as Compiled
from .compiled.compile import compile as compile
from .errors import CompileError as CompileError
from .errors import GraphFormatError as GraphFormatError
from .errors import LeakError as LeakError
from .errors import PlanWarning as PlanWarning
from .explanation.explain import Explanation as Explanation
from .explanation.explain import explain as explain
from .explanation.explain import graph_of as graph_of
from .fusion import Fusion as Fusion
from .ir.serialization import dumps as dumps
from .ir.serialization import loads as loads
from .support.run_ahead import run_ahead as run_ahead

"""Memory pools: statistics, limits and strategies, and what backends build theirs from."""

from .blocks import ALIGNMENT as ALIGNMENT
from .blocks import Block as Block
from .blocks import Label as Label
from .blocks import Memory as Memory
from .blocks import Source as Source
from .control import limit as limit
from .control import pool_from_environment as pool_from_environment
from .control import pool_of as pool_of
from .control import release as release
from .control import stats as stats
from .control import strategy as strategy
from .host import HostMemory as HostMemory
from .host import HostSource as HostSource
from .owners import Owners as Owners
from .pool import Pool as Pool
from .statistics import Holder as Holder
from .statistics import Statistics as Statistics
from .strategies import STRATEGIES as STRATEGIES

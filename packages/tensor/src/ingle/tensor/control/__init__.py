"""Control flow that can be traced: regions, branches and loops as single steps."""

from .branching import cond as cond
from .calling import call as call
from .looping import while_loop as while_loop
from .scanning import scan as scan

"""`python -m ingle.tensor`: the console script where it is not on the path."""

import sys

from .cli import main

sys.exit(main())

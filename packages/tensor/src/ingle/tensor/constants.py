"""The numbers that the Array API standard names."""

import math

e = math.e
"""Euler's number, the base of natural logarithms."""

inf = math.inf
"""Positive infinity."""

nan = math.nan
"""Not a number."""

newaxis = None
"""In an index, a new axis of size 1."""

pi = math.pi
"""The ratio of a circle's circumference to its diameter."""

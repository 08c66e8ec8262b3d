"""Files of weights: reading without copies, writing, and what fits into a module."""

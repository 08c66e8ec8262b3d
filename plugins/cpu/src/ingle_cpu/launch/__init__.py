"""Launch: the kernels of a plan as a table."""

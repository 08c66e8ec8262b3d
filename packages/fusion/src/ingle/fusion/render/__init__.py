"""Source text of kernels for one kind of target each."""

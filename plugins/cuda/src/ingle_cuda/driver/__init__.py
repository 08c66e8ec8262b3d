"""Driver: libraries of the toolkit, GPUs, their memory, and how errors of theirs read."""

"""From a recorded graph to kernels, step by step."""

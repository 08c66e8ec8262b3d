"""Schedule: order, liveness and memory of kernels."""

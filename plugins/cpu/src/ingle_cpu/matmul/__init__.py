"""Matmul: matrix products with an epilogue."""

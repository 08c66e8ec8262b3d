"""Products: matrix products by cuBLAS, cuBLASLt and kernels of the plugin's own."""

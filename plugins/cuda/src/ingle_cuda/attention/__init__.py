"""Attention: by cuDNN, and by kernels of the plugin's own for many and for few queries."""

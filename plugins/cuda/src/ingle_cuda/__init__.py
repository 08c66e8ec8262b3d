"""The CUDA backend of Ingle."""

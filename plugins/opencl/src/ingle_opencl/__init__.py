"""The OpenCL backend of Ingle."""

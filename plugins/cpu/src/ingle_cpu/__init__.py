"""The CPU backend: kernels compiled by LLVM, run by a gang of native workers."""

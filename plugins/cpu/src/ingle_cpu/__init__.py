"""The CPU backend: kernels compiled by LLVM, run by a thread pool of native workers."""

"""JIT: LLVM IR to machine code in this process."""

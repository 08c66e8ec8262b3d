"""Nests as LLVM IR text."""

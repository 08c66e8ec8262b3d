"""Graphs: the steps of a plan, launched one by one or as one CUDA graph."""

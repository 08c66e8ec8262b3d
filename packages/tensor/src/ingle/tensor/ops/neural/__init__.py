"""Layers that are no other family."""

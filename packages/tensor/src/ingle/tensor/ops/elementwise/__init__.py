"""Elementwise: one result element per element."""

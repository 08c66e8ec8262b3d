"""Pooling: one result per window."""

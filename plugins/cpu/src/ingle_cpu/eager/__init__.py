"""Eager: operations that run one at a time."""

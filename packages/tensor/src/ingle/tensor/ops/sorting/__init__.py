"""Sorting: by order of values."""

"""Compiled: the function `compile`."""

"""Nests as C11 source text."""

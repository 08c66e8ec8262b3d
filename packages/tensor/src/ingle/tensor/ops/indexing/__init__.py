"""Indexing: elements by position."""

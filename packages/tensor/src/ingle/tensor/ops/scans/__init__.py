"""Scans: running results along an axis."""

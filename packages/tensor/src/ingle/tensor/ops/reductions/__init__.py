"""Reductions: fewer elements than before."""

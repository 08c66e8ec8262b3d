"""Grouping: which operations become one kernel."""

"""Lowering: from a group to a loop nest."""

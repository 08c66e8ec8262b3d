"""Explanation: what a function becomes, for people."""

"""Codes: products of few rows by weights of few bits."""

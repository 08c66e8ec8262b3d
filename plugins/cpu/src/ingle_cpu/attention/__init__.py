"""Attention: by blocks of queries and keys, without the matrix of all scores, with its gradient."""

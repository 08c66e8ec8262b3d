"""Attention and its gradient by blocks of queries and keys, without the matrix of all scores."""

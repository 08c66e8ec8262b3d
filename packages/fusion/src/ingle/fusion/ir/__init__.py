"""IR: the graph of operations."""

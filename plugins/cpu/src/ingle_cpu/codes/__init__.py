"""Products by weights that are kept as codes of four or eight bits."""

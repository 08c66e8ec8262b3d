"""The kernel IR: scalar code, and nests of loops around it."""

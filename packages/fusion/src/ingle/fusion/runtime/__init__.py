"""Runtime: plans that run."""

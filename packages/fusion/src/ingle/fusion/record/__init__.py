"""Record: logs of what was asked for."""

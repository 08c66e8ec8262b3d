"""Support: what every stage may use."""

"""Plans for sizes that are not known yet."""

"""A complete backend of Ingle in three short files."""

"""Movement: elements in other places."""

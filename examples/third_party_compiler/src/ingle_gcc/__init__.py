"""A backend of Ingle that compiles generated C with gcc."""

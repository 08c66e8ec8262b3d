"""Images in other sizes and at other places."""

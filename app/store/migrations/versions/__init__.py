"""One file a revision. What stands in one that was released never changes."""

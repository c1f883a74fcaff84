"""Shell. Two configurations compared: what differs, and what a proposed one would change in the running service."""

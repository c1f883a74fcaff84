"""Shell. ``/v1/explain``: what would happen to an event, and why."""

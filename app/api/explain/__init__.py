"""Shell. ``/v1/explain``: what an event would meet, and why."""

"""Shell. ``/v1/events``: what happened to one event, from its producer to every subscription."""

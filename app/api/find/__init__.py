"""Shell. ``/v1/events``: the whole way of one event, from its producer to every subscription."""

"""Shell. ``/v1/attempts``, ``/v1/parked`` and ``/v1/dead-letters``: deliveries in the store, and their
answers."""

"""Shell. ``/v1/attempts``, ``/v1/parked`` and ``/v1/dead-letters``: the deliveries of the store, and their answers."""

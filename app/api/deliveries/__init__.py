"""Shell. ``/v1/attempts``, ``/v1/parked`` and ``/v1/dead-letters``: the deliveries that the store records,
and the targets' answers."""

"""Shell. ``/v1/topics``: metadata, records, tail and produce, by reading without a group."""

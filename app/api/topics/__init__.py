"""Shell. ``/v1/topics``: metadata, records, tail and produce. Topics are read without a group."""

"""Shell. One driver a broker behind one interface: ``portable`` bounds, times and counts around it.

``driver`` is what each of them offers. A driver owns partitioning, wire batching and reconnection and holds no policy.
"""

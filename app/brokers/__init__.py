"""Shell. One driver a broker behind one interface: ``portable`` bounds, times and counts around it.

A driver owns partitioning, wire batching and reconnection and holds no policy.
"""

"""Shell. The drivers of all brokers, each of them a ``Log``.

``portable`` implements what is the same for every broker: bounds, time-outs, counts and error translation.
``driver`` defines the interface that each broker's package implements. A driver does partitioning, wire
batching and reconnection, and holds no policy.
"""

"""Shell. The drivers of all brokers. Each driver, with ``portable``, is a ``Log``.

``portable`` implements what is the same for every broker: bounds, time-outs, counts and error translation.
``driver`` defines the interface that the package of each broker implements. A driver does partitioning, wire
batching and reconnection. It makes no decisions about retries or rights.
"""

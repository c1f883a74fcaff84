"""A Spark data source for Pulsar on the Reader API, in batch and as a stream; it reads the same
range every time.

========== =====================================================================================
options    what Spark passes to the source
reading    a range of one partition, by blocking calls of the client; message ids as numbers
positions  the offsets that a cluster holds now, read from its admin API by the driver
datasource ``format("cloudevents")``, built on these two
========== =====================================================================================

Spark's Python workers import ``reading`` and ``options``. These two import no HTTP client,
no configuration and no broker, but only the binding of Pulsar.
"""

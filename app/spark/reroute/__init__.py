"""Apply the routes of the configuration from topics to topics: what the gateway does with an event,
on a Spark cluster.

========= ======================================================================================
plan      checks what cannot run as a job, before anything is read
making    ``app.bindings`` and ``app.routing``, over Arrow batches
job       a batch or a stream of records, from Kafka to Kafka
========= ======================================================================================
"""

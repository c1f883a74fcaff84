"""The routes of the configuration, from topics to topics: what the gateway does with an event on its way in, at
the scale of a cluster.

========= ======================================================================================
plan      what cannot run as a job: reported first
making    ``app.bindings`` and ``app.routing`` themselves, over Arrow batches
job       a batch or a stream of records, from Kafka to Kafka
========= ======================================================================================
"""

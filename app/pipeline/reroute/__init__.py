"""The routes of the configuration, from topics to topics: what the gateway does with an event on its way in, at
the scale of a cluster.

========= ======================================================================================
plan      which routes run natively, which exactly, and which cannot run: reported first
texts     templates and key mappers as columns
writing   records as ``app.bindings.kafka`` writes them, as columns
native    route, key, topic and record of what is clear: no Python
exact     ``app.routing`` and ``app.bindings`` themselves, for what is in doubt
job       a batch or a stream of records, from Kafka to Kafka
========= ======================================================================================

Both ways give the same records (ADR 0021): the native one steps aside wherever it is not certain.
"""

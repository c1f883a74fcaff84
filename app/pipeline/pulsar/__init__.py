"""Pulsar for Spark: a data source on the Reader API, as batch and as stream, replayable and exact.

========== =====================================================================================
offsets    a message id as one number, and back
options    what the data source is told, as Spark has it: texts
reading    a range of one partition, message by message, by a client's blocking calls
positions  what a cluster holds now, asked of its administration; on the driver alone
datasource ``format("cloudevents")``: what is made of them
========== =====================================================================================

Python workers of Spark import ``reading``, ``options`` and ``offsets``, and nothing else of ours but the
binding: these three import no web client, no configuration, no broker.
"""

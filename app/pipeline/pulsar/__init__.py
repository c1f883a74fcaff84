"""Pulsar for Spark: a data source on the Reader API, as batch and as stream, replayable and exact.

========== =====================================================================================
reading    a range of one partition, message by message, by a client's blocking calls; ids as numbers
positions  what a cluster holds now, asked of its administration; on the driver alone
datasource ``format("cloudevents")``: what is made of them
========== =====================================================================================

Python workers of Spark import ``reading`` and ``pulsar_options``, and nothing else of ours but the binding: these
two import no web client, no configuration, no broker.
"""

"""The data pipeline: the events of a log in a lake of Iceberg tables, and back again, on Spark.

Kafka, or the embedded log through its Kafka listener, is read by Spark's own source, Pulsar by ours. Records go one way:
``source`` (records on the wire) to ``events_raw`` (unchanged), from there ``decode`` to ``events`` and
``quarantine``. ``replay``, ``redrive``, ``reroute`` publish records; ``report`` and ``query`` read: they ask DuckDB,
without Spark.

=========== ====================================================================================
settings    the settings of the commands, as plain values: no configuration file is read here
jars        the jars beside pyspark, pinned
session     the one Spark session, with every setting that poison asks for; Java's classes
workers     the process that Spark forks its Python workers from
tables      the lake: three tables, their columns, how they are made
source      records of a log as a frame, in a batch or a stream
pulsar      a data source of Spark for Pulsar; ``pulsar_options`` are its options
decode      records to events: by column over Arrow batches, and ``app.bindings`` itself for what is in doubt
filtering   filters and CloudEvents SQL over decoded rows: ``app.filters`` itself
archive     a log into ``events_raw``, and that into ``events`` and ``quarantine``: exactly once
maintain    compaction, expiry
erase       removes one subject or source from every table and snapshot
replay      records of the lake to a topic or the gateway, byte for byte, at a rate
redrive     quarantined records that can be decoded now
reroute     the routes of the configuration, from topics to topics
report      what happened, on one page
query       one question in SQL
state       where the lake is and how far, from what Iceberg keeps beside the rows
=========== ====================================================================================

Only this package knows pyspark, which is the extra ``pipeline`` (ADR 0021).
"""

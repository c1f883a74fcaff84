"""The data pipeline on Spark: it copies the events of a log into Iceberg tables, and publishes them
again.

Spark's own source reads Kafka, and the embedded log through its Kafka listener. A data source of
Skybridge reads Pulsar. ``archive`` copies the records unchanged from ``source`` into
``events_raw``. Then ``decode`` turns them into rows of ``events`` and ``quarantine``. ``replay``,
``redrive`` and ``reroute`` publish records. ``report`` and ``query`` read the tables with DuckDB,
without Spark.

=========== ====================================================================================
settings    the settings of the commands, as plain values: no configuration file is read here
jars        the jars that pyspark needs in addition to its own, pinned
class_data  the file of parsed classes that shortens the start of a JVM
session     the one Spark session, with all settings that the rows depend on; Java's classes
workers     the process that Spark forks its Python workers from
cleanup     clean up without hiding the first error
faults      errors of Java by their classes: catalog, storage or class is missing
tables      the lake: its tables, their columns, how they are created
kinds       the kinds of columns that typed tables have, as plain values
typed       typed tables: the data of one event type in the columns of a JSON Schema
source      records of a log as a frame, in a batch or a stream
pulsar      a data source of Spark for Pulsar; ``pulsar_options`` are its options
decode      records to events: by column over Arrow batches, and by ``app.bindings`` for doubtful rows
filtering   filters and CloudEvents SQL over decoded rows, evaluated by ``app.filters``
archive     a log into ``events_raw``, and that into the other tables: exactly once
maintain    compaction, expiry
erase       removes one subject or source from every table and snapshot
replay      records of the lake to a topic or the gateway, byte for byte, at a rate
redrive     quarantined records that the decoder accepts now
reroute     the routes of the configuration, from topics to topics
report      what happened, on one page
query       one question in SQL
to_python   columns of Arrow as Python values
state       the number of rows and the newest record time, read from the metadata of Iceberg
=========== ====================================================================================

Only this package imports pyspark, which is the extra ``pipeline`` (ADR 0021).
"""

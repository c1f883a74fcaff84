"""The data pipeline on Spark: it copies the events of a log into Iceberg tables, and publishes them
again.

``app.spark`` starts Spark and reads the records of Kafka, the embedded log and Pulsar. ``archive``
copies them unchanged into ``events_raw``. Then ``decode`` turns them into rows of ``events`` and
``quarantine``. ``replay`` and ``redrive`` publish records. ``report`` and ``query`` read the tables
with DuckDB, without Spark.

=========== ====================================================================================
settings    the settings of the lake, as plain values: no configuration file is read here
workers     the process that Spark forks its Python workers from
tables      the lake: its tables, their columns, how they are created
kinds       the kinds of columns that typed tables have, as plain values
typed       typed tables: the data of one event type in the columns of a JSON Schema
decode      records to events: by column over Arrow batches, and by ``app.bindings`` for doubtful rows
filtering   filters and CloudEvents SQL over decoded rows, evaluated by ``app.filters``
archive     a log into ``events_raw``, and that into the other tables: exactly once
maintain    compaction, expiry
erase       removes one subject or source from every table and snapshot
replay      records of the lake to a topic or the gateway, byte for byte, at a rate
redrive     quarantined records that the decoder accepts now
report      what happened, on one page
query       one question in SQL
latest      the newest event of each source and subject, as a view
state       the number of rows and the newest record time, read from the metadata of Iceberg
=========== ====================================================================================
"""

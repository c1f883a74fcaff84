"""Copy a log into the lake: every record once, every event once, and invalid records with their
faults.

An archive is three things: the copy of records, the writer that decodes and commits, and the lease
that keeps a second archive away.

=============== ===================================================================================
job             topics, limits and callbacks of an archive
run             the archive, once; and the steps of every archive
follow          the archive until it is stopped
metrics         what a running archive reports to Prometheus: ``lag``, ``table_state``
--------------- -----------------------------------------------------------------------------------
**copy**
copying         records of topics into ``events_raw``, batch after batch, exactly once
topics          the ids of topics, and where reading began
--------------- -----------------------------------------------------------------------------------
**writer**
derive          ``events_raw`` into the other tables, range after range, exactly once
ranges          the ranges of offsets; ``progress`` is how far a table is derived, in the snapshot of its rows
raw             a range of ``events_raw``, read from Parquet by the tasks that decode it
reading         Parquet files in batches of bounded size
writing         the tasks that decode records
files           the data files that these tasks write; ``partitions`` and ``identity`` of their rows
storage         files on this machine or in an object store
commit          the snapshots that name these files; ``layouts`` of the tables
iceberg_adapter what data files need of Iceberg's Java classes, and its known versions
unique          which events are new, found by narrow columns; ``known`` has the hashes of the table
typed_tables    the typed tables that are missing or changed
rewrite         data files written again, and replaced by a commit
small_files     the small files of a running archive, merged
relayout        ``events`` moved to other partitions
--------------- -----------------------------------------------------------------------------------
**lease**
lock            one writer for each lake
lease           the lock of a lake in an object store
=============== ===================================================================================
"""

"""Copy a log into the lake: every record once, every event once, and invalid records with their
faults.

============ ===================================================================================
run          the archive, once; and the steps of every archive
follow       the archive until it is stopped
stream       a topic into ``events_raw`` by Iceberg's own sink, exactly once
batches      the batches of a stream that have ended
renewed      topics that were deleted and created again
derive       ``events_raw`` into the other tables, range after range, exactly once
ranges       the ranges of offsets
raw          a range of ``events_raw``, read from Parquet by the tasks that decode it
reading      Parquet files in batches of bounded size
writing      the tasks that decode records
files        the data files that these tasks write; ``partitions`` and ``identity`` of their rows
storage      files on this machine or in an object store
commit       the snapshots that name these files
unique       which events are new, found by narrow columns
known        the hashes of the table, cached in memory
progress     how far a table is derived, stored in the snapshot of its rows
typed_tables the typed tables that are missing or changed
rewrite      data files written again, and replaced by a commit
small_files  the small files of a running archive, merged
relayout     ``events`` moved to other partitions
lock         one writer for each lake; ``lease`` for lakes in object stores
metrics      what a running archive reports to Prometheus: ``lag``, ``table_state``
============ ===================================================================================
"""

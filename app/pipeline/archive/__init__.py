"""Copy a log into the lake: every record once, every event once, and invalid records with their
faults.

========= ======================================================================================
run       the archive, once or for ever: the stream, and the derived tables
stream    a topic into ``events_raw`` by Iceberg's own sink, exactly once
batches   the batches of a stream that have ended
derive    ``events_raw`` into ``events`` and ``quarantine``, range after range, exactly once
raw       a range of ``events_raw``, read from Parquet by the tasks that decode it
files     the data files that these tasks write
storage   files on this machine or in an object store
commit    the snapshots that name these files
unique    which events are new, found by narrow columns
identity  the hash by which ``events`` knows an event
known     the hashes of the table, cached in memory
progress  how far a table is derived, stored in the snapshot of its rows
positions the offsets that a broker holds now
lag       the lag of the lake, for Prometheus
lock      one writer for each lake
========= ======================================================================================
"""

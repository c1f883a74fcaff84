"""A log into the lake: every record once, every event once, invalid records with their faults.

========= ======================================================================================
run       once or for ever: the stream, and the derived tables
stream    Kafka into ``events_raw`` by Iceberg's own sink, exactly once
derive    ``events_raw`` into ``events`` and ``quarantine``, range after range, exactly once
unique    which events are new, told by narrow columns
progress  how far a table is, in the snapshot of its rows
positions what Kafka holds now
lag       how far the lake is behind, for Prometheus
lock      one writer a lake
========= ======================================================================================
"""

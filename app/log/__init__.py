"""Shell. The embedded durable log: one SQLite file in a folder, written by one thread.

================= ====== ===========================================================================
engine            shell  the interface of the log: append, read, watch
writer            shell  the writer thread: collects commit groups, runs jobs
append_results    shell  the result of every append: stored, refused, no room, or failed for good
commit            shell  one commit group: records of many appends in one transaction
partition_append  shell  records for one partition, stored all or none, perhaps numbered
stored_batches    shell  stored records as they are in the file
reader            shell  the reader thread: pages, each in a read transaction of its own
database          shell  connections, pragmas, schema and version, the lock of the folder
known             shell  the state in memory: catalogue, positions, producers, identities
catalogue         shell  topics, partitions and segments in the file, and their changes
partitions               the same in memory
groups            shell  members and positions of groups, and how both are stored
upkeep            shell  retention of segments, producers, identities and groups
size              shell  the size of the file, and the checkpoints of the write-ahead log
loop_handoff      shell  results from a thread of the log to the event loop
settings                 the settings of the log
producers         shell  the states of idempotent producers, stored with their records
identities        shell  events that a route stores once, stored with their records
sequences         pure   sequence numbers of idempotent producers
codec             pure   records as the bytes of a row, with a checksum
================= ====== ===========================================================================
"""

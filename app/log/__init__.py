"""Shell. The embedded durable log: one SQLite file in a folder, written by one thread.

================= ====== ===========================================================================
engine            shell  what the rest of Skybridge calls: append, read, watch
writer            shell  the one writer thread: gathers commit groups, runs jobs, rests
append_results    shell  the fate of every append: stored, refused, no room, or broken for good
commit            shell  one commit group: rows staged by partition, stored or not as a whole
partition_append  shell  records for one partition, as a whole or not at all, perhaps numbered
stored_batches    shell  what is stored, as it is stored
reader            shell  the one reader thread: pages, each in a read transaction of its own
database          shell  connections and pragmas, schema and its version, the lock on the folder
known             shell  what is in memory of the file: catalogue, positions, producers, identities
catalogue         shell  topics, partitions and segments in the file, and what changes them
partitions               the same in memory
groups            shell  who is in which group, what it has read, and what is stored of both
upkeep            shell  what ages, and goes: segments, producers, identities, groups
size              shell  the room taken, and when the write-ahead log is folded back
loop_handoff      shell  from a thread of the log back to the event loop
settings                 what the log can be told
producers         shell  idempotent producers' batches, stored together with their state
identities        shell  events that a route stores once, stored together with their records
sequences         pure   sequence numbers of idempotent producers
codec             pure   records as the bytes of a row and back, with its checksum
================= ====== ===========================================================================
"""

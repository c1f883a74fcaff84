"""Shell. Takes messages from a log and sees each of them delivered, or buried, before it is settled.

``supervisor`` runs one ``dispatch.Dispatcher`` a subscription. The dispatcher asks the log for
batches and settles what is finished; ``intake`` reads and filters; ``courier`` sends, one attempt at
a time in each lane; ``burial`` stores dead letters; ``attempts`` remembers, logs and counts.
"""

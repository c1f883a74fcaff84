"""Records of the lake once more: to a topic or through the gateway, in order per key, at a rate.

======== ========================================================================================
choice   which records: time, topics, type, source, subject, CloudEvents SQL
chosen   the frame of them, and slices of it in order
plan     what would be sent, counted; and the slices, fixed before the first record leaves
notes    the plan and how far it is, in files beside the checkpoints: what ``--resume`` reads
topic    what is sent of a record, marked outside the event; and the way to a topic
gateway  the way through the events listener
run      slices out, one after another, each record when it is due, and what became of them
======== ========================================================================================
"""

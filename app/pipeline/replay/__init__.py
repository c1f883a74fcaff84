"""Records of the lake once more: to a topic or through the gateway, in order per key, at a rate.

======== ========================================================================================
choice   which records: time, topics, type, source, subject, CloudEvents SQL
chosen   the frame of them, and slices of it in order
plan     what would be sent, counted; and the slices, fixed before the first record leaves
notes    the plan and how far it is, in files beside the checkpoints: what ``--resume`` reads
pace     when a record is due: by a rate, or by the times that were
writing  a record as it was, or its event in 1.0; with the mark of a replay, outside the event
topic    the way to a topic
gateway  the way through the events listener
run      slices out, one after another, and what became of them
======== ========================================================================================
"""

"""Replay records of the lake to a topic or through the gateway, in order for each key and at a
rate.

======== ========================================================================================
choice   which records: time, topics, type, source, subject, CloudEvents SQL
chosen   the frame of these records, and slices of it in order
plan     what would be sent, counted; and the slices, fixed before the first record is sent
notes    the plan and its progress, in files, which ``--resume`` reads
topic    the form of a sent record, marked outside the event; and publishing to a topic
gateway  sending through the events listener
run      sends slice after slice, each record when it is due, and counts the results
======== ========================================================================================
"""

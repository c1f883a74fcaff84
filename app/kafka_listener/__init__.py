"""Shell. The embedded log's Kafka face: frames in, answers out, for clients that were not written here.

``server`` listens, ``connection`` reads frames and answers them in order, ``wire`` turns bytes into the
message classes of ``kio`` and back, ``apis`` is the table of what is offered, and each of the other
modules handles the APIs of one concern. ``node`` is what they all act on.
"""

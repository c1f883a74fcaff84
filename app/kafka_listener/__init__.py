"""Shell. Kafka's protocol on the embedded log: frames in, answers out, for Kafka clients.

``server`` listens, ``connection`` reads frames and answers them in order, ``wire`` turns bytes into the
message classes of ``kio`` and back, ``apis`` is the table of what is offered, and each of the other
modules handles the APIs of one concern. ``node`` is what they all act on.
"""

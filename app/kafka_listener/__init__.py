"""Shell. Kafka's protocol on the embedded log, for Kafka clients: requests in, responses out.

``server`` listens, and ``connection`` reads requests and answers them in order. ``wire`` converts
bytes to the message classes of ``kio`` and back. ``apis`` is the table of the offered APIs, and
``node`` is the state that all handlers use. Each other module handles the APIs of one concern.
"""

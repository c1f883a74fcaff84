"""Shell. One attempt to deliver, and nothing else: no policy, no retry, no opinion on the answer.

``webhook`` writes the event for HTTP, ``topic`` writes it for a broker, ``pull_queue`` makes it a row that a
consumer pulls; ``traced`` puts a span around any of them. ``dead_letters`` is the one way into the dead letters.

Beside ``webhook``: ``http_client`` posts; ``http_pool`` has the connections to one host, ``http_connect`` makes
them, ``http_connection`` is one of them, ``http_answer`` reads what comes back, ``dns`` finds the addresses that
a webhook may have. ``handshake`` asks for consent, ``credentials`` and ``signatures`` add headers,
``masks`` hide what is secret in an answer, ``replies`` take the events out of one.
"""

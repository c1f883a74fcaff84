"""Shell. One attempt to deliver, and nothing else: no policy, no retry, no opinion on the answer.

``webhook`` writes the event for HTTP, ``topic`` writes it for a broker. ``http_client`` posts it:
``http_pool`` has the connections to one host, ``http_connect`` makes them, ``http_connection`` is one
of them, ``http_answer`` reads what comes back, ``dns`` finds the addresses that a webhook may have.
"""

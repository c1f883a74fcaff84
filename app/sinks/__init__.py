"""Shell. Send one delivery attempt to a sink. Retries and the judgement of the answer are the
worker's part.

``webhook`` writes the event for HTTP. ``topic`` writes it for a broker. ``pull_queue`` stores it as
a row that a consumer pulls. ``traced`` adds spans to any of the three sinks. Every dead letter is
stored through ``dead_letters``.

``webhook`` posts with ``http_client``. ``http_pool`` holds the connections to one host, and
``http_connect`` opens them. ``http_connection`` is one connection, and ``http_answer`` parses its
answers. ``dns`` resolves a host to the addresses that a webhook may have.

``handshake`` asks a webhook for consent. ``credentials`` and ``signatures`` add headers to a
request. ``masks`` hides secrets in an answer, and ``replies`` publishes the events of an answer.
"""

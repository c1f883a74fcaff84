"""The bounds of a listener. Each is a setting except ``heads``, ``handshake_timeout`` and
``linger``.
"""

from __future__ import annotations

import msgspec

KIB = 1024
MIB = 1024 * KIB


class ListenerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a listener. Sizes are in bytes, times in seconds.

    Attributes:
        header_bytes: largest head of a request; a larger head is answered 431. The head of an event with 64
            KiB of attributes passes, even if percent-encoding makes them longer.
        header_fields: most fields of a head; more are answered 431.
        heads: most bytes of unfinished heads over all connections; if more arrive, the oldest head is
            refused.
        body: largest body, before and after content decoding; a larger body is answered 413. It is at least
            64 KiB plus the growth by base64.
        receiving: most bytes of requests with an unfinished body over all connections; a request beyond is
            answered 503. ``listener.BodyShares`` divides these bytes.
        connections: most open connections, including TLS handshakes; a further connection gets 503 and is
            closed.
        batch_events: most events of one batch.
        in_work: most unanswered requests of one connection; at this number reading pauses.
        keep_alive_requests: answers of one connection after which it ends, so that senders spread over new
            processes; 0 means any number. Requests that have arrived are answered first.
        in_flight: most requests of the process that wait for a log; further requests get 503.
        handshake_timeout: time limit of a TLS handshake, after which the connection is closed.
        head_timeout: time limit from the first byte of a request to the end of its head, after which the
            answer is 408.
        body_timeout: time limit from the end of the head to the end of the body, after which the answer is
            408. It also limits how long a client may leave answers unread.
        keep_alive: time after which an idle connection is closed.
        linger: time for which a refused connection is read and discarded, so that the refusal
            reaches a client that still sends.
    """

    header_bytes: int = 256 * KIB
    header_fields: int = 256
    heads: int = 32 * MIB
    body: int = 4 * MIB
    receiving: int = 256 * MIB
    connections: int = 10_000
    batch_events: int = 1000
    in_work: int = 16
    keep_alive_requests: int = 1000
    in_flight: int = 10_000
    handshake_timeout: float = 10.0
    head_timeout: float = 10.0
    body_timeout: float = 30.0
    keep_alive: float = 75.0
    linger: float = 2.0

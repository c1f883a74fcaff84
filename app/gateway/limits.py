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
        header_bytes: largest head; a larger one is 431. A 64 KiB event in headers passes, also
            percent-encoded.
        header_fields: most fields of a head; more are 431.
        heads: bytes of unfinished heads over all connections; beyond, the oldest is refused.
        body: largest body before and after content decoding; a larger one is 413. At least 64 KiB
            plus the growth by base64.
        receiving: bytes of requests with an unfinished body over all connections; beyond, 503.
            ``listener.BodyShares`` divides them.
        connections: open connections, including TLS handshakes; one more gets 503 and is closed.
        batch_events: most events of one batch.
        in_work: most requests of one connection in work before reading pauses.
        in_flight: most requests of the process that wait for a log before others get 503.
        handshake_timeout: limit of a TLS handshake; then the connection is closed.
        head_timeout: limit from the first byte of a request to the end of its head; then 408.
        body_timeout: limit from there to the end of the body; then 408. It also limits how long a
            client may leave answers unread.
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
    in_flight: int = 10_000
    handshake_timeout: float = 10.0
    head_timeout: float = 10.0
    body_timeout: float = 30.0
    keep_alive: float = 75.0
    linger: float = 2.0

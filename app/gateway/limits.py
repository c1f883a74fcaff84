"""The bounds of a listener (rule 8). Each is a setting but ``heads``, ``handshake_timeout`` and ``linger``."""

from __future__ import annotations

import msgspec

KIB = 1024
MIB = 1024 * KIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds.

    ``header_bytes``, ``header_fields``  a head beyond either is 431. A 64 KiB event made of headers
                        passes, percent-encoded too (core 1.4).
    ``heads``           bytes of unfinished heads, over all connections; beyond: the oldest is refused.
    ``body``            a body beyond it is 413, before and after content decoding. Never below
                        64 KiB plus base64 growth (I1).
    ``receiving``       bytes of requests whose body is unfinished, over all connections; beyond: 503.
                        ``listener.BodyShares`` divides them.
    ``connections``     open connections, handshakes of TLS counted; one more is answered 503 and closed.
    ``batch_events``    most events of one batch (H5).
    ``in_work``         requests of one connection that may be in work before its reading pauses.
    ``in_flight``       requests of the process that may wait for a log before others get 503.
    ``handshake_timeout``  from the connection to the end of its TLS handshake: closed.
    ``head_timeout``    from the first byte of a request to the end of its head: 408.
    ``body_timeout``    from there to the end of its body: 408. Also how long a peer may leave its
                        answers unread.
    ``keep_alive``      an idle connection is closed.
    ``linger``          how long a refused connection is read and thrown away, so that the refusal
                        reaches a peer that is still sending.
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

"""Which senders the webhook handshake consents to, as a target (spec 5.3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from app.gateway.answers import AnswerHeaders


class Senders:
    """``origins``: names, or ``*`` for everybody. ``rate``: requests a minute; None for any.

    A name is compared as a whole: one that begins or ends like an allowed one is another's. The
    address of a callback is never called: it is the sender's word, and consent is told at once.
    """

    def __init__(self, origins: Collection[str] = ("*",), rate: int | None = None) -> None:
        self._everybody = "*" in origins
        self._origins = frozenset(origin.lower().encode() for origin in origins)
        self._rate = b"*" if rate is None else b"%d" % rate

    def consent(self, named: Mapping[bytes, bytes]) -> AnswerHeaders:
        """The headers of an answer to OPTIONS; none is no consent."""
        origin = named.get(b"webhook-request-origin")
        if not origin or not (self._everybody or origin.lower() in self._origins):
            return ()
        return ((b"webhook-allowed-origin", origin), (b"webhook-allowed-rate", self._rate))

"""The senders that the webhook handshake consents to, as a target (spec 5.3), and the web pages that may send.

A browser names the origin of a page in ``Origin`` of each POST and PUT (Fetch 3.2). Other programs send no such field.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from app.gateway.answers import AnswerHeaders
from app.gateway.request import HeaderPairs

_OCTET = rb"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_LOOPBACK = re.compile(
    rb"https?://(?:(?:[a-z0-9_-]+\.)*localhost|127(?:\.%b){3}|\[::1\])(?::\d{1,5})?" % _OCTET,
    re.IGNORECASE,
)


def is_of_other_page(headers: HeaderPairs) -> bool:
    """Return whether ``Origin`` names a web page that does not come from loopback; ``null`` is such a page."""
    origins = [value for name, value in headers if name == b"origin"]
    return not all(map(_LOOPBACK.fullmatch, origins))


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

"""The origins to which the webhook handshake consents (webhook specification 4), and the web pages
that may send.

A browser sends the origin of a page in the header ``Origin`` of each POST and PUT (Fetch 3.2). Other programs
do not send this header.
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
    """Return True if the header ``Origin`` names a web page that does not come from loopback. The origin
    ``null`` counts as such a page.
    """
    origins = [value for name, value in headers if name == b"origin"]
    return not all(map(_LOOPBACK.fullmatch, origins))


class AllowedOrigins:
    """The origins that the webhook handshake of this listener consents to.

    ``origins`` lists names, or ``*`` for all. A name must match as a whole, because a name that only begins
    or ends like an allowed one is a different origin. ``rate`` is the requests per minute to allow; None
    means no limit. The answer to the handshake contains the consent, so the callback URL of a sender is never
    called.
    """

    def __init__(self, origins: Collection[str] = ("*",), rate: int | None = None) -> None:
        self._allows_all = "*" in origins
        self._origins = frozenset(origin.lower().encode() for origin in origins)
        self._rate = b"*" if rate is None else b"%d" % rate

    def consent(self, named: Mapping[bytes, bytes]) -> AnswerHeaders:
        """Return the headers that consent to a handshake request, or no headers if the origin is
        not allowed.
        """
        origin = named.get(b"webhook-request-origin")
        if not origin or not (self._allows_all or origin.lower() in self._origins):
            return ()
        return ((b"webhook-allowed-origin", origin), (b"webhook-allowed-rate", self._rate))

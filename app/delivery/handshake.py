"""The abuse protection of the webhook specification, as a sender (spec 5.3): what is asked, and
whether an answer is consent.

Consent is ``WebHook-Allowed-Origin`` with ``*`` or exactly the name that was asked for, and nothing
else: neither a status nor a header of CORS, nor a name that merely begins like ours.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ORIGIN = "WebHook-Request-Origin"
RATE = "WebHook-Request-Rate"
CALLBACK = "WebHook-Request-Callback"
ALLOWED_ORIGIN = "WebHook-Allowed-Origin"
ALLOWED_RATE = "WebHook-Allowed-Rate"
_ANY = "*"
_DIGITS = 9  # of a rate; more is no rate that anybody reaches


class Consent(msgspec.Struct, frozen=True):
    """``rate``: deliveries a minute; None for as many as we like."""

    rate: int | None = None


def questions(origin: str, rate: int | None, callback: str) -> tuple[tuple[str, str], ...]:
    """The headers of the OPTIONS request. ``callback``: URL, or "" for none."""
    asked = [(ORIGIN, origin)]
    if rate is not None:
        asked.append((RATE, str(rate)))
    if callback:
        asked.append((CALLBACK, callback))
    return tuple(asked)


def consent(headers: Mapping[str, str], origin: str, asked_rate: int | None) -> Consent | None:
    """What the answer grants, None for nothing. ``headers``: names in any case that the mapping
    folds. Without a rate the one that was asked for applies, the letter's own relaxation."""
    allowed = headers.get(ALLOWED_ORIGIN, "").strip()
    if allowed != _ANY and allowed.lower() != origin.lower():  # a DNS name knows no case
        return None
    return Consent(allowed_rate(headers.get(ALLOWED_RATE), asked_rate))


def allowed_rate(text: str | None, asked: int | None) -> int | None:
    """Deliveries a minute, None without a bound. What is no positive number grants no more than was
    asked for."""
    if text is None:
        return asked
    text = text.strip()
    if text == _ANY:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) > 0:
        return int(text)
    return asked

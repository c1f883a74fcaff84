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
_REDIRECT = 3  # hundreds of a status
_DIGITS = 9  # of a rate; more is no rate that anybody reaches


class Consent(msgspec.Struct, frozen=True):
    """``rate``: deliveries a minute; None for as many as we like."""

    rate: int | None = None


class ConsentRefusal(msgspec.Struct, frozen=True):
    """``why``: for people."""

    why: str


def questions(origin: str, rate: int | None, callback: str) -> tuple[tuple[str, str], ...]:
    """The headers of the OPTIONS request. ``callback``: URL, or "" for none."""
    asked = [(ORIGIN, origin)]
    if rate is not None:
        asked.append((RATE, str(rate)))
    if callback:
        asked.append((CALLBACK, callback))
    return tuple(asked)


def consent(
    status: int, headers: Mapping[str, str], origin: str, asked_rate: int | None
) -> Consent | ConsentRefusal:
    """What the answer grants. ``headers``: their names in lower case. Without a rate the one that
    was asked for applies, the letter's own relaxation."""
    if status // 100 == _REDIRECT:
        return ConsentRefusal(f"status {status}: a redirect is no consent")
    allowed = headers.get(ALLOWED_ORIGIN.lower(), "").strip()
    if allowed != _ANY and allowed.lower() != origin.lower():  # a DNS name knows no case
        return ConsentRefusal(f"status {status}")
    return granted(headers.get(ALLOWED_RATE.lower()), asked_rate)


def granted(rate: str | None, asked: int | None) -> Consent | ConsentRefusal:
    """By the text of a rate, where the origin is allowed. One that is no positive number says that something is
    wrong there: it is no consent."""
    if rate is None:
        return Consent(asked)
    rate = rate.strip()
    if rate == _ANY:
        return Consent(None)
    if not (rate.isascii() and rate.isdecimal() and rate.strip("0")):
        return ConsentRefusal(
            f"{ALLOWED_RATE} is not a positive number"
        )  # what it is may be an echo
    return Consent(int(rate) if len(rate) <= _DIGITS else None)

"""The sender's side of the abuse protection in the webhook specification: the headers of its request, and the
webhook's consent.

A webhook consents with the header ``WebHook-Allowed-Origin``, whose value is ``*`` or exactly the requested
name. A status alone, a CORS header, or a name that only begins with the requested name is no consent."""

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
_DIGITS = 9  # of a rate; a longer rate has no effect


class Consent(msgspec.Struct, frozen=True):
    """The consent of a webhook. ``rate`` is the allowed number of deliveries per minute, or None without a limit."""

    rate: int | None = None


class ConsentRefusal(msgspec.Struct, frozen=True):
    """The refusal of a webhook: an answer that is not a consent. ``why`` is the reason, for an operator."""

    why: str


def questions(origin: str, rate: int | None, callback: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of the OPTIONS request that asks a webhook for its consent.

    Args:
        origin: the DNS name of the sender.
        rate: the requested deliveries per minute, or None.
        callback: the URL at which the target may consent later, or "".
    """
    asked = [(ORIGIN, origin)]
    if rate is not None:
        asked.append((RATE, str(rate)))
    if callback:
        asked.append((CALLBACK, callback))
    return tuple(asked)


def consent(
    status: int, headers: Mapping[str, str], origin: str, asked_rate: int | None
) -> Consent | ConsentRefusal:
    """Return the consent that an answer grants, or a refusal with the reason.

    Args:
        status: the status of the answer.
        headers: the headers by names in lower case.
        origin: the requested name.
        asked_rate: the requested rate, which applies if the answer has none.
    """
    if status // 100 == _REDIRECT:
        return ConsentRefusal(f"status {status}: a redirect is no consent")
    allowed = headers.get(ALLOWED_ORIGIN.lower(), "").strip()
    if allowed != _ANY and allowed.lower() != origin.lower():  # a DNS name knows no case
        return ConsentRefusal(f"status {status}")
    return granted(headers.get(ALLOWED_RATE.lower()), asked_rate)


def granted(rate: str | None, asked: int | None) -> Consent | ConsentRefusal:
    """Return the consent of a webhook that allows the origin, with the given rate.

    If the rate is not a positive number, return a refusal, because the target must be misconfigured. If the
    answer has no rate, the requested rate applies."""
    if rate is None:
        return Consent(asked)
    rate = rate.strip()
    if rate == _ANY:
        return Consent(None)
    if not (rate.isascii() and rate.isdecimal() and rate.strip("0")):
        return ConsentRefusal(
            f"{ALLOWED_RATE} is not a positive number"
        )  # the value is not repeated: it may be an echo of the request
    return Consent(int(rate) if len(rate) <= _DIGITS else None)

"""The settings of forwarded and added headers, and the validation of their names."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from app.bindings.forwarding import APART, is_field_name, why_not


def _name(text: str) -> str:
    if not is_field_name(text) or text != text.lower():
        raise ValueError("is not a header name in lower case (RFC 9110 5.1)")
    why = why_not(text)
    if why:
        raise ValueError(f"{text} is never forwarded: it {why}")
    return text


def _exact_name(text: str) -> str:
    if text.endswith("*"):
        raise ValueError(
            "accepts only whole names: with * any sender could add any header to a message"
        )
    return _name(text)


def _name_or_beginning(text: str) -> str:
    if text == "*":
        return text
    _name(text.removesuffix("*"))
    return text


def _own_header(text: str) -> str:
    """Return the name of a header that carries a credential. ``authorization`` is permitted here."""
    if not is_field_name(text) or text != text.lower():
        raise ValueError("is not a header name in lower case (RFC 9110 5.1)")
    if text.startswith(_EVENTS) or (why_not(text) and text not in _CREDENTIALS):
        raise ValueError(f"{text} has a meaning already: choose another header")
    return text


def _static_header(text: str) -> str:
    if not is_field_name(text) or text != text.lower():
        raise ValueError("is not a header name in lower case (RFC 9110 5.1)")
    if text in _BY_AUTH:
        raise ValueError(f"{text} is a credential: set auth")
    if text.startswith(APART):
        raise ValueError(f"{text} belongs to headers of the message")
    why = why_not(text)
    if why and text not in _CREDENTIALS:
        raise ValueError(f"{text} cannot be set: it {why}")
    return text


_EVENTS = ("ce-", "content-", "webhook-")
_CREDENTIALS = {"authorization", "proxy-authorization", "cookie"}

_BY_AUTH = {"authorization", "proxy-authorization"}

StaticHeader = Annotated[str, AfterValidator(_static_header)]
"""The name of a header that every request of a subscription has."""
OwnHeader = Annotated[str, AfterValidator(_own_header)]
"""The name of a header that carries a credential."""
ForwardedNames = tuple[Annotated[str, AfterValidator(_exact_name)], ...]
"""Whole header names in lower case."""
ForwardHeaders = tuple[Annotated[str, AfterValidator(_name_or_beginning)], ...]
"""Header names in lower case, or prefixes of them that end with ``*``."""

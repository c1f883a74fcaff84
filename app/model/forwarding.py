"""The settings of forwarded and added headers, and the validation of their names."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from app.bindings.forwarding import APART, is_field_name, why_not

_NOT_A_NAME = "The value is not a header name in lower case (RFC 9110 5.1). Cure: Write a header name such as x-request-id."


def _name(text: str) -> str:
    if not is_field_name(text) or text != text.lower():
        raise ValueError(_NOT_A_NAME)
    why = why_not(text)
    if why:
        raise ValueError(
            f"The header {text} is never forwarded, because it {why}. Cure: Remove the header."
        )
    return text


def _exact_name(text: str) -> str:
    if text.endswith("*"):
        raise ValueError(
            "The name contains *, and this list accepts only whole header names. With *, a client could add any header to a message. "
            "Cure: Write each header name in full."
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
        raise ValueError(_NOT_A_NAME)
    if text.startswith(_EVENTS) or (why_not(text) and text not in _CREDENTIALS):
        raise ValueError(
            f"The header {text} already has another meaning. Cure: Choose another header, such as x-api-key."
        )
    return text


def _static_header(text: str) -> str:
    if not is_field_name(text) or text != text.lower():
        raise ValueError(_NOT_A_NAME)
    if text in _BY_AUTH:
        raise ValueError(
            f"The header {text} is a credential. Cure: Set auth instead of this header."
        )
    if text.startswith(APART):
        raise ValueError(
            f"The header {text} has a prefix that is reserved for message headers. Cure: Choose a header name without the prefix."
        )
    why = why_not(text)
    if why and text not in _CREDENTIALS:
        raise ValueError(
            f"The header {text} cannot be set, because it {why}. Cure: Remove the header."
        )
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

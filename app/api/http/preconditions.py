"""ETags against lost updates (RFC 9110 13): a client names the version that it changes."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import Header

from app.api.asked.registry import SubscriptionEntry
from app.api.http.problems import RequestRefused

IfMatch = Annotated[
    str | None, Header(description="ETag of the version to change; * for any version")
]
"""The header If-Match of a request."""
IfNoneMatch = Annotated[
    str | None,
    Header(description="* to create only; an ETag to get 304 while the version is unchanged"),
]
"""The header If-None-Match of a request."""


class Conditions(NamedTuple):
    """The headers If-Match and If-None-Match of one request."""

    if_match: str | None = None
    if_none_match: str | None = None

    def check(self, entry: SubscriptionEntry | None) -> None:
        """Raise Refused with 412 if the stored entry does not meet the conditions. ``entry`` is None if
        nothing is stored."""
        etag = None if entry is None else entry.etag
        if self.if_match is not None and not _matches_etag(self.if_match, etag):
            raise _precondition_failed(
                f"If-Match is {self.if_match}, but the ETag is {etag or 'none'}"
            )
        if self.if_none_match is not None and _matches_etag(_as_strong(self.if_none_match), etag):
            raise _precondition_failed(
                f"If-None-Match is {self.if_none_match}, but the ETag is {etag}"
            )

    def demand_if_match(self) -> None:
        """Raise Refused with 428 if the request has no If-Match. Without it, a change could undo the change
        of another client."""
        if self.if_match is None:
            raise RequestRefused(
                428, "precondition-required", "If-Match is missing. Send the ETag of a GET in it"
            )

    def unchanged(self, entry: SubscriptionEntry) -> bool:
        """Return True if the header If-None-Match names the present version, so that the client has it
        already."""
        return self.if_none_match is not None and _matches_etag(
            _as_strong(self.if_none_match), entry.etag
        )


def _matches_etag(header: str, etag: str | None) -> bool:
    """Return True if the header names the ETag. Comparison is strong: a weak tag never matches."""
    if etag is None:
        return False
    return header.strip() == "*" or etag in [tag.strip() for tag in header.split(",")]


def _as_strong(header: str) -> str:
    """Return the header with every weak tag turned into a strong one. If-None-Match compares weakly (RFC 9110
    13.1.2), because a proxy that compresses answers weakens their tags."""
    return header.replace('W/"', '"')


def _precondition_failed(detail: str) -> RequestRefused:
    """Return the refusal with 412."""
    return RequestRefused(
        412, "precondition-failed", f"{detail}. Read it again, and change the new version"
    )

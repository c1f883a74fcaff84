"""ETags against lost updates (RFC 9110 13): who changes something says what it is a change of."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import Header

from app.api.asked.registry import Entry
from app.api.http.problems import Refused

IfMatch = Annotated[
    str | None, Header(description="the ETag of the version to change; * for any version")
]
IfNoneMatch = Annotated[
    str | None, Header(description="*: only if none exists yet; an ETag: 304 while it is unchanged")
]


class Conditions(NamedTuple):
    if_match: str | None = None
    if_none_match: str | None = None

    def check(self, entry: Entry | None) -> None:
        """Raises Refused with 412."""
        etag = None if entry is None else entry.etag
        if self.if_match is not None and not _names(self.if_match, etag):
            raise _failed(f"If-Match names {self.if_match}, but the ETag is {etag or 'none'}")
        if self.if_none_match is not None and _names(_strong(self.if_none_match), etag):
            raise _failed(f"If-None-Match is {self.if_none_match}, but the ETag is {etag}")

    def demand(self) -> None:
        """Without a condition the change of somebody else could be undone unseen: 428."""
        if self.if_match is None:
            raise Refused(428, "precondition-required", "send If-Match with the ETag of a GET")

    def unchanged(self, entry: Entry) -> bool:
        """Whether a reader has it already."""
        return self.if_none_match is not None and _names(_strong(self.if_none_match), entry.etag)


def _names(header: str, etag: str | None) -> bool:
    """Strong comparison: a weak tag is equal to none."""
    if etag is None:
        return False
    return header.strip() == "*" or etag in [tag.strip() for tag in header.split(",")]


def _strong(header: str) -> str:
    """If-None-Match compares weakly (RFC 9110 13.1.2): a proxy that packs answers weakens their tags."""
    return header.replace('W/"', '"')


def _failed(detail: str) -> Refused:
    return Refused(
        412, "precondition-failed", f"{detail}: read it again, and change the new version"
    )

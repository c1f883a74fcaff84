"""``/v1/audit``: the audit of changes, logins, looks at event data and refused requests."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.access.operations import router
from app.api.access.parts import StoreDep
from app.api.http import parameters
from app.api.http.bodies import json_answer
from app.api.http.parameters import LIMIT, LIMIT_MAX, Id, Moment, Text
from app.api.http.slices import Slices
from app.api.http.views import CopyingView
from app.interfaces import AuditFilter, AuditKind


class AuditQuery(BaseModel):
    """The filter of audit entries to return. A parameter that is absent selects all."""

    model_config = ConfigDict(extra="forbid")

    kind: AuditKind | None = Field(
        None, description="only changes, logins, looks at event data, or refused requests"
    )
    who: Text | None = Field(None, description="name of the token")
    operation: Text | None = Field(None, description="operation id of this document")
    target: Text | None = Field(None, description="id or name of the object of the operation")
    since_ms: Moment | None = Field(
        None,
        alias="since",
        description="at this time or later: RFC 3339, or milliseconds since the epoch",
    )
    until_ms: Moment | None = Field(None, alias="until", description="before this time")
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="maximum number of entries of a page")
    before: Id | None = Field(None, description="only entries with a lower id; next contains it")


class AuditEntryView(CopyingView):
    """One request to the admin listener, or several equal ones within an hour. An entry never contains event
    data or secrets."""

    id: int = Field(description="id of the entry")
    kind: AuditKind = Field(description="change, login, look at event data, or refusal")
    at_ms: int = Field(
        description="when the request arrived, or the first of several, in ms since the epoch"
    )
    count: int = Field(
        description="number of requests that this entry counts. They have the same kind, caller, address, "
        "operation, object and status. A successful change always has an entry of its own"
    )
    last_ms: int | None = Field(
        description="when the last of several requests arrived; null if the entry counts one"
    )
    who: str = Field(
        description="name of the token. It is token for server.admin.token, loopback if no token is needed, "
        "and signal or file for a reload without a request"
    )
    address: str = Field(description="address of the caller, or of its proxy")
    operation: str = Field(description="operation id of this document")
    target: str = Field(
        description="id or name of the object of the operation; empty if it has none"
    )
    status: int | None = Field(
        description="status of the answer; null if it is unknown, because the process or the connection "
        "ended before the answer"
    )
    detail: str = Field(description="how much the operation changed")


class AuditPage(BaseModel):
    """A page of audit entries."""

    entries: list[AuditEntryView] = Field(description="the newest first")
    next: str | None = Field(description="path of the next page; null on the last page")


routes = router(prefix="/v1/audit", tags=["audit"])


@routes.operation("GET", "audit", (422, 503), response_model=AuditPage)
async def audit(
    store: StoreDep, request: Request, query: Annotated[AuditQuery, Query()]
) -> Response:
    """Return changes, logins, looks at event data and refused requests, the newest first.

    The store keeps a limited number of each kind: 10,000 logins, and as many of the other kinds as
    `store.audit` sets. Equal requests are one entry with a count.
    """
    choice = msgspec.convert(query, AuditFilter, from_attributes=True)
    found = await store.audit.find(choice, query.limit + 1, query.before)
    page = found[: query.limit]
    more = len(found) > query.limit
    return json_answer(
        {
            "entries": await Slices().rows(page, AuditEntryView.of),
            "next": parameters.next_page(request, before=page[-1].id) if more else None,
        }
    )

"""``/v1/audit``: who operated the service, who logged in, who looked at event data, and with which outcome."""

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
from app.api.http.views import View
from app.interfaces import AuditChoice, AuditKind


class AuditQuery(BaseModel):
    """A page of entries: what is left out chooses all."""

    model_config = ConfigDict(extra="forbid")

    kind: AuditKind | None = Field(
        None, description="changes, logins, looks at event data, or refusals"
    )
    who: Text | None = Field(None, description="name of the token")
    operation: Text | None = Field(None, description="operation id, as in this document")
    target: Text | None = Field(None, description="object of the operation")
    since_ms: Moment | None = Field(
        None,
        alias="since",
        description="at this time or later: RFC 3339, or milliseconds since the epoch",
    )
    until_ms: Moment | None = Field(None, alias="until", description="before this time")
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="most entries of a page")
    before: Id | None = Field(None, description="only entries with a lower id, as next says")


class AuditEntryView(View):
    """One use of the admin listener, or several alike within an hour. It never holds event data or secrets."""

    id: int
    kind: AuditKind
    at_ms: int = Field(description="when the request came; of several, the first")
    count: int = Field(
        description="how many requests it stands for: with the same kind, caller, address, operation, "
        "object and status. A change that succeeded always has an entry of its own"
    )
    last_ms: int | None = Field(description="when the last of several came; null: there is one")
    who: str = Field(
        description="name of the token; token for server.admin.token, loopback where none is needed, "
        "signal or file for a reload without a request"
    )
    address: str = Field(description="address of the caller, or of the proxy before it")
    operation: str
    target: str = Field(description="object of the operation; empty where it has none")
    status: int | None = Field(
        description="status of the answer; null: none is known, because the process or the connection "
        "ended first"
    )
    detail: str = Field(description="how much was changed")


class AuditPage(BaseModel):
    entries: list[AuditEntryView] = Field(description="the newest first")
    next: str | None = Field(description="path of the next page; null on the last")


routes = router(prefix="/v1/audit", tags=["audit"])


@routes.operation("GET", "audit", (422, 503), response_model=AuditPage)
async def audit(
    store: StoreDep, request: Request, query: Annotated[AuditQuery, Query()]
) -> Response:
    """Changes, logins, looks at event data and refusals, the newest first. The store keeps a bounded number
    of each kind: 10,000 logins, the others by `store.audit`. Requests alike are one entry with a count."""
    choice = msgspec.convert(query, AuditChoice, from_attributes=True)
    found = await store.audit.find(choice, query.limit + 1, query.before)
    page = found[: query.limit]
    more = len(found) > query.limit
    return json_answer(
        {
            "entries": await Slices().rows(page, AuditEntryView.of),
            "next": parameters.next_page(request, before=page[-1].id) if more else None,
        }
    )

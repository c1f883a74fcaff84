"""``/v1/session``: a browser sends an admin token once and has a session from then on (ADR 0041)."""

from __future__ import annotations

from typing import cast

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from app.api.access.audit_trail import AuditRecorder
from app.api.access.callers import caller_of
from app.api.access.guard import (
    AccessRefusal,
    PresentedSession,
    TokenGuard,
    cookie_of,
    presented_by,
)
from app.api.access.operations import router
from app.api.access.parts import ClockDep
from app.api.access.sessions import csrf_of, set_cookie
from app.api.http.moments import rfc3339
from app.api.http.problems import MEDIA_TYPE, RequestRefused
from app.interfaces import Clock
from app.model.scopes import Scope

LONGEST_TOKEN = 4096  # characters

routes = router("/v1/session", tags=["session"])


class Login(BaseModel):
    """The token with which a person logs in."""

    model_config = ConfigDict(extra="forbid")

    token: SecretStr = Field(
        min_length=1,
        max_length=LONGEST_TOKEN,
        description="server.admin.token, or one of server.admin.tokens",
    )


class SessionView(BaseModel):
    """The caller of this request and its rights."""

    authenticated: bool = Field(description="true if the caller has a valid token or session")
    login_required: bool = Field(
        description="false if the listener has no token and is on loopback"
    )
    name: str = Field(
        description="name of the token, as in the audit; empty for a caller without one"
    )
    scopes: list[Scope] = Field(description="the scopes that the caller has now")
    csrf: str = Field(
        description="value of the header X-CSRF-Token for every change by this session; empty if none is needed"
    )
    expires_at: str | None = Field(
        description="when the session ends without further use, RFC 3339; null without a session"
    )


@routes.get("", operation_id="session")
async def look(clock: ClockDep, request: Request) -> SessionView:
    """Return the caller of this request and its scopes. A caller without a token gets an answer too, so that
    a page knows whether to ask for a token."""
    return _view(clock, request)


@routes.post(
    "",
    operation_id="log_in",
    response_model=SessionView,
    responses=RequestRefused.responses(401, 429),
)
async def log_in(
    clock: ClockDep, request: Request, response: Response, login: Login
) -> SessionView | Response:
    """Exchange a token for a session. An HttpOnly cookie, which only this host receives, contains the opaque
    session id.

    The session has the rights of its token. It ends after half an hour without use, after twelve hours, at
    logout, and when its token is removed or changed.
    """
    guard = _guard(request)
    if guard.open:
        return _view(clock, request)
    found = guard.log_in(request.scope, login.token.get_secret_value())
    if isinstance(found, AccessRefusal):
        return Response(found.body, found.status, dict(found.headers), MEDIA_TYPE)
    caller, presented = found
    await _trail(request).record_login(request.scope, caller.name, "log_in", 200)
    response.headers["set-cookie"] = set_cookie(cookie_of(request.scope), presented.id)
    return _view(clock, request)


@routes.delete("", operation_id="log_out", status_code=204)
async def log_out(request: Request) -> Response:
    """End the session of this browser. Its open streams end within seconds."""
    headers: dict[str, str] = {}
    caller, presented = caller_of(request.scope), presented_by(request.scope)
    if caller is not None and presented is not None:
        _guard(request).log_out(request.scope)
        await _trail(request).record_login(request.scope, caller.name, "log_out", 204)
        headers["set-cookie"] = set_cookie(cookie_of(request.scope), "")
    return Response(status_code=204, headers=headers)


def _view(clock: Clock, request: Request) -> SessionView:
    guard, caller = _guard(request), caller_of(request.scope)
    presented = presented_by(request.scope)
    return SessionView(
        authenticated=caller is not None,
        login_required=not guard.open,
        name="" if caller is None else caller.name,
        scopes=[] if caller is None else sorted(caller.scopes),
        csrf="" if presented is None else csrf_of(presented.id),
        expires_at=_ends(clock, guard, presented),
    )


def _ends(clock: Clock, guard: TokenGuard, presented: PresentedSession | None) -> str | None:
    if presented is None:
        return None
    return rfc3339(clock.now() + guard.sessions.seconds_left(presented.session))


def _guard(request: Request) -> TokenGuard:
    return cast("TokenGuard", request.app.state.guard)


def _trail(request: Request) -> AuditRecorder:
    return cast("AuditRecorder", request.app.state.trail)

"""Every operation of the admin listener: the scope that it needs, and whether the audit keeps it.

The scope is judged when the head of a request is read, before its body. What is audited is written down
before it begins: without a store nothing is changed, and no event data is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from app.api.access.audit_trail import Trail
from app.api.access.callers import Caller, caller_of
from app.api.access.parts import given_of
from app.api.access.reach import OutsideBinding, demand_path
from app.api.access.redaction import Shown
from app.api.http.bodies import replayed
from app.api.http.problems import MissingScope, Refused
from app.model.scopes import Scope

Handler = TypeVar("Handler", bound=Callable[..., Any])
Responses = Mapping[int | str, dict[str, Any]]
Audited = Literal["", "change", "look", "use"]
"""``look``: event data may be shown. ``use``: as ``look``, once an hour for each caller and object."""

LARGEST_OF_STRANGERS = 8 << 10  # bytes of a body that is read before any login
LARGEST_MODEL = 64 << 10  # bytes of a body that FastAPI parses: settings of one verb


class Rule(NamedTuple):
    """``scope`` None: liveness, readiness and the session of a browser, which answer everybody. ``whole``: it is
    about the whole service, and refuses a bound token. What a path names, and what lists hold, is judged for
    every operation (``reach``)."""

    scope: Scope | None
    audited: Audited = ""
    whole: bool = False


_READ, _LOOK, _USE = Rule("read"), Rule("read", "look"), Rule("pull", "use")
_OPERATE, _CONFIGURE = Rule("operate", "change"), Rule("configure", "change")

RULES: Mapping[str, Rule] = {
    "health": Rule(None),
    "readiness": Rule(None),
    "metrics": Rule("metrics", whole=True),
    "status": _READ,
    "session": Rule(None),
    "log_in": Rule(None),  # these two write themselves into the audit
    "log_out": Rule(None),
    "history": _READ,
    "history_live": _READ,
    "audit": Rule("read", whole=True),
    "configuration": Rule("read", whole=True),
    "check_configuration": Rule("configure", whole=True),
    "plan_configuration": Rule("configure", whole=True),
    "reload_configuration": Rule("configure", "change", whole=True),
    "topics": _READ,
    "topic": _READ,
    "offsets": _READ,
    "peek": _LOOK,
    "tail": _LOOK,
    "produce": _OPERATE,
    "explain": _READ,
    "subscriptions": _READ,
    "subscriptions_allow": _READ,
    "subscription": _READ,
    "subscription_status": _READ,
    "subscription_allow": _READ,
    "create_subscription": _CONFIGURE,
    "replace_subscription": _CONFIGURE,
    "patch_subscription": _CONFIGURE,
    "delete_subscription": _CONFIGURE,
    "draft_query": _READ,
    "draft_allow": _READ,
    "draft_retrieve": _READ,
    "draft_allow_one": _READ,
    "draft_create": _CONFIGURE,
    "draft_update": _CONFIGURE,
    "draft_delete": _CONFIGURE,
    "pause_subscription": _OPERATE,
    "resume_subscription": _OPERATE,
    "test_subscription": _OPERATE,
    "replay_subscription": _OPERATE,
    "replays": _READ,
    "cancel_replays": _OPERATE,
    "cancel_replay": _OPERATE,
    "receive": _USE,
    "acknowledge": _USE,
    "release": _USE,
    "reject": _USE,
    "renew": _USE,
    "subscription_events": Rule("pull", "look"),
    "dead_letters": _LOOK,
    "dead_letter": _LOOK,
    "count_dead_letters": _READ,
    "resend_dead_letter": _OPERATE,
    "redrive_dead_letters": _OPERATE,
    "discard_dead_letters": _OPERATE,
    "parked": _LOOK,
    "parked_keys": _LOOK,
    "count_parked": _READ,
    "attempts": _LOOK,
    "find_events": _LOOK,
}
"""By operation id. One that is missing here does not start (KeyError)."""


class Operation(APIRoute):
    """A route that knows its rule."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        name = cast("str", self.operation_id)
        rule = RULES[name]
        most = LARGEST_OF_STRANGERS if rule.scope is None else LARGEST_MODEL
        reads_body = self.body_field is not None  # others read theirs under bounds of their own

        async def guarded(request: Request) -> Response:
            caller = caller_of(request.scope)
            if rule.scope is not None:
                await _admit(request, cast("Caller", caller), name, rule)
            return await handle(await replayed(request, most) if reads_body else request)

        return guarded


async def _admit(request: Request, caller: Caller, name: str, rule: Rule) -> None:
    """Raises MissingScope, OutsideBinding, and StoreUnavailable where the audit cannot be written."""
    trail = cast("Trail", request.app.state.trail)
    if rule.scope not in caller.scopes:
        await trail.refused(request.scope, caller, name)
        raise MissingScope(name, cast("Scope", rule.scope), caller.name, caller.scopes)
    try:
        await demand_path(given_of(request), caller, name, request.path_params, whole=rule.whole)
    except OutsideBinding:
        await trail.refused(request.scope, caller, name)
        raise
    if rule.audited == "change":
        await trail.begin(request.scope, caller, "change", name)
    elif rule.audited and (rule.scope == "pull" or caller.shown.some):
        await trail.begin(request.scope, caller, "look", name, hourly=rule.audited == "use")


def stream_answer(description: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a stream of server-sent events."""
    return {200: {"content": {"text/event-stream": {}}, "description": description}}


class Router(APIRouter):
    def operation(
        self,
        at: str,
        name: str,
        refusals: Sequence[int] = (),
        *,
        responses: Responses | None = None,
        **more: Any,
    ) -> Callable[[Handler], Handler]:
        """``at``: method, and path below the prefix. ``name``: its id. ``refusals``: statuses that it answers
        problems with."""
        method, _, path = at.partition(" ")
        told = {**(responses or {}), **Refused.responses(*refusals)}
        return self.api_route(path, methods=[method], operation_id=name, responses=told, **more)


def router(prefix: str = "", *, tags: list[str | Any]) -> Router:
    """Of operations."""
    return Router(prefix=prefix, tags=tags, route_class=Operation)


async def _caller(request: Request) -> Caller:
    return cast("Caller", caller_of(request.scope))


async def _shown(request: Request) -> Shown:
    return cast("Caller", caller_of(request.scope)).shown


By = Annotated[Caller, Depends(_caller)]
"""The caller of an operation."""
To = Annotated[Shown, Depends(_shown)]
"""What the caller may be shown."""

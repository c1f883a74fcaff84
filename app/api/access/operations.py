"""The operations of the admin listener: the scope that each one needs, and whether the audit records it.

The scope is checked when the head of a request is read, before its body. An audited operation is recorded
before it begins. Without a store, nothing is changed and no event data is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from app.api.access.audit_trail import AuditRecorder
from app.api.access.callers import AdminCaller, caller_of
from app.api.access.parts import given_of
from app.api.access.reach import OutsideBinding, demand_path
from app.api.access.redaction import Redaction
from app.api.http.bodies import with_read_body
from app.api.http.problems import MissingScope, RequestRefused
from app.model.scopes import Scope

Handler = TypeVar("Handler", bound=Callable[..., Any])
Responses = Mapping[int | str, dict[str, Any]]
Audited = Literal["", "change", "look", "use"]
"""The way in which the audit records an operation. ``look`` means that event data may be shown. ``use`` is a
look that is recorded once an hour for each caller and object."""

LARGEST_OF_STRANGERS = 8 << 10  # bytes of the body of an operation without login
LARGEST_MODEL = 64 << 10  # bytes of a body that FastAPI parses


class OperationRule(NamedTuple):
    """The requirements of an operation for its caller.

    The module ``reach`` checks whether the caller may access the objects that a path names and that lists
    contain.

    Attributes:
        scope: The scope that the token needs. None for liveness, readiness and login, which answer every
            caller.
        audited: How the audit records the operation.
        whole: Whether the operation applies to the whole service. A token that is limited to some
            subscriptions or topics is then refused.
    """

    scope: Scope | None
    audited: Audited = ""
    whole: bool = False


_READ, _LOOK, _USE = (
    OperationRule("read"),
    OperationRule("read", "look"),
    OperationRule("pull", "use"),
)
_OPERATE, _CONFIGURE = OperationRule("operate", "change"), OperationRule("configure", "change")

RULES: Mapping[str, OperationRule] = {
    "health": OperationRule(None),
    "readiness": OperationRule(None),
    "metrics": OperationRule("metrics", whole=True),
    "status": _READ,
    "session": OperationRule(None),
    "log_in": OperationRule(None),  # login and logout record themselves in the audit
    "log_out": OperationRule(None),
    "history": _READ,
    "history_live": _READ,
    "audit": OperationRule("read", whole=True),
    "configuration": OperationRule("read", whole=True),
    "check_configuration": OperationRule("configure", whole=True),
    "plan_configuration": OperationRule("configure", whole=True),
    "reload_configuration": OperationRule("configure", "change", whole=True),
    "alerts": OperationRule("read", whole=True),
    "test_alert": OperationRule("operate", "change", whole=True),
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
    "subscription_history": _READ,
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
    "retry_subscription": _OPERATE,
    "replay_subscription": _OPERATE,
    "replays": _READ,
    "cancel_replays": _OPERATE,
    "cancel_replay": _OPERATE,
    "receive": _USE,
    "acknowledge": _USE,
    "release": _USE,
    "reject": _USE,
    "renew": _USE,
    "subscription_events": OperationRule("pull", "look"),
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
"""The rule of each operation, by operation id. The application refuses to start (KeyError) if an operation
has no rule here."""


class Operation(APIRoute):
    """A route that checks the rule of its operation before it runs the handler."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        name = cast("str", self.operation_id)
        rule = RULES[name]
        most = LARGEST_OF_STRANGERS if rule.scope is None else LARGEST_MODEL
        reads_body = (
            self.body_field is not None
        )  # other handlers read their body under their own limit

        async def guarded(request: Request) -> Response:
            caller = caller_of(request.scope)
            if rule.scope is not None:
                await _admit(request, cast("AdminCaller", caller), name, rule)
            return await handle(await with_read_body(request, most) if reads_body else request)

        return guarded


async def _admit(request: Request, caller: AdminCaller, name: str, rule: OperationRule) -> None:
    """Check the rule of an operation and begin its audit entry.

    Raises:
        MissingScope: The token lacks the scope.
        OutsideBinding: The token does not permit the object that the path names.
        StoreUnavailable: The audit cannot be written.
    """
    trail = cast("AuditRecorder", request.app.state.trail)
    if rule.scope not in caller.scopes:
        await trail.record_refusal(request.scope, caller, name)
        raise MissingScope(name, cast("Scope", rule.scope), caller.name, caller.scopes)
    try:
        await demand_path(given_of(request), caller, name, request.path_params, whole=rule.whole)
    except OutsideBinding:
        await trail.record_refusal(request.scope, caller, name)
        raise
    if rule.audited == "change":
        await trail.begin(request.scope, caller, "change", name)
    elif rule.audited and (rule.scope == "pull" or caller.shown.shows_data):
        await trail.begin(request.scope, caller, "look", name, hourly=rule.audited == "use")


def stream_answer(description: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of an answer that is a stream of server-sent events."""
    return {200: {"content": {"text/event-stream": {}}, "description": description}}


class OperationRouter(APIRouter):
    """A router whose routes are operations of the admin listener."""

    def operation(
        self,
        at: str,
        name: str,
        refusals: Sequence[int] = (),
        *,
        responses: Responses | None = None,
        **more: Any,
    ) -> Callable[[Handler], Handler]:
        """Return a decorator that adds a handler as an operation with an id.

        ``at`` is the method and the path below the prefix, as in "GET /x". ``refusals`` are the statuses that
        the operation answers with a problem.
        """
        method, _, path = at.partition(" ")
        told = {**(responses or {}), **RequestRefused.responses(*refusals)}
        return self.api_route(path, methods=[method], operation_id=name, responses=told, **more)


def router(prefix: str = "", *, tags: list[str | Any]) -> OperationRouter:
    """Return an empty router for the operations of one resource."""
    return OperationRouter(prefix=prefix, tags=tags, route_class=Operation)


async def _caller(request: Request) -> AdminCaller:
    return cast("AdminCaller", caller_of(request.scope))


async def _shown(request: Request) -> Redaction:
    return cast("AdminCaller", caller_of(request.scope)).shown


CallerDep = Annotated[AdminCaller, Depends(_caller)]
"""A handler parameter: the caller of the operation."""
RedactionDep = Annotated[Redaction, Depends(_shown)]
"""A handler parameter: the redaction, which defines the event data that the caller may see."""

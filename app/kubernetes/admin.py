"""The admin API as the operator uses it: read all subscriptions, and create, replace and delete one."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from app.config.model.operator import OperatorAdmin
from app.errors import SkybridgeError
from app.event.json_text import NOT_JSON
from app.libraries.httpx_client import httpx
from app.model.outlet_rules import with_secret_sink
from app.model.secret import HIDDEN
from app.problems import problem_type
from app.sinks.secrets import LiveSecret

Document = Mapping[str, Any]
_WITHIN = 20.0  # seconds for an answer
_KEPT = 60.0  # seconds for which a connection waits: another one may lead to a worker that sees another state
_PATH = "/v1/subscriptions"


class AdminUnavailable(SkybridgeError):
    """The admin API does not answer for now."""


class AdminRefused(SkybridgeError):
    """The admin API refused a request. ``code`` is the code of the problem."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class _Fault(msgspec.Struct):
    detail: str = ""


class _Problem(msgspec.Struct):
    """The members of a problem document (RFC 9457) that a message needs."""

    type: str = ""
    detail: str = ""
    faults: Sequence[_Fault] = ()


class _Parked(msgspec.Struct):
    parked: Sequence[Any]


class AdminApi:
    """A client of the admin API with the operator's token."""

    def __init__(
        self, settings: OperatorAdmin, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """Take the address and the token. ``transport`` replaces the network in tests."""
        trust = ssl.create_default_context(cafile=settings.ca) if settings.ca else True
        self._token = LiveSecret(settings.token)  # a file of it may change
        self._http = httpx.AsyncClient(
            base_url=settings.url,
            timeout=httpx.Timeout(_WITHIN, connect=5),
            limits=httpx.Limits(max_connections=32, keepalive_expiry=_KEPT),
            verify=trust,
            trust_env=False,
            transport=transport,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def subscriptions(self) -> dict[str, dict[str, Any]]:
        """Return all subscriptions with document, ETag and state, by id."""
        answer = await self._ask("GET", _PATH)
        try:
            listed = msgspec.json.decode(answer.content, type=list[dict[str, Any]])
            return {each["id"]: each for each in listed}
        except (*NOT_JSON, KeyError):
            raise self._no_admin_api() from None

    async def create(self, document: Document) -> str:
        """Create a subscription and return its ETag."""
        answer = await self._ask("POST", _PATH, document)
        return self._etag(answer)

    async def replace(self, name: str, document: Document, etag: str) -> str:
        """Replace the document of a subscription and return its ETag."""
        answer = await self._ask("PUT", _path(name), document, {"if-match": etag})
        return self._etag(answer)

    async def delete(self, name: str, etag: str) -> None:
        """Delete this version of a subscription. One that does not exist is no error."""
        try:
            await self._ask("DELETE", _path(name), headers={"if-match": etag})
        except AdminRefused as refused:
            if refused.status != httpx.codes.NOT_FOUND:
                raise

    async def has_parked(self, name: str) -> bool:
        """Return True if events of a subscription wait in the store. Unlike the state of a subscription, this answer
        is never 0 because the store does not answer."""
        answer = await self._ask("GET", f"/v1/parked?subscription={quote(name, safe='')}&limit=1")
        try:
            return bool(msgspec.json.decode(answer.content, type=_Parked).parked)
        except NOT_JSON:
            raise self._no_admin_api() from None

    async def _ask(
        self,
        method: str,
        path: str,
        document: Document | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        sent = {**(headers or {}), "authorization": f"Bearer {self._token().strip()}"}
        body = None
        if document is not None:
            body, sent["content-type"] = msgspec.json.encode(document), "application/json"
        try:
            answer = await self._http.request(method, path, content=body, headers=sent)
        except httpx.RequestError as error:
            raise AdminUnavailable(f"{self._http.base_url} does not answer: {error!r}") from None
        if answer.is_success:
            return answer
        raise _refusal(answer)

    def _etag(self, answer: httpx.Response) -> str:
        try:
            return answer.headers["etag"]
        except KeyError:
            raise self._no_admin_api() from None

    def _no_admin_api(self) -> AdminUnavailable:
        return AdminUnavailable(f"{self._http.base_url} does not answer as the admin API does")


def _path(name: str) -> str:
    return f"{_PATH}/{quote(name, safe='')}"


def _refusal(answer: httpx.Response) -> SkybridgeError:
    """Return the error of an answer. Its message has the faults that the admin API lists, which repeat no secret."""
    try:
        problem = msgspec.json.decode(answer.content, type=_Problem)
    except NOT_JSON:
        problem = _Problem()
    faults = " ".join(each.detail for each in problem.faults)
    message = faults or problem.detail or f"status {answer.status_code}"
    if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR or answer.status_code in (
        httpx.codes.TOO_MANY_REQUESTS,
        httpx.codes.UNAUTHORIZED,
    ):
        return AdminUnavailable(message)
    code = problem.type.removeprefix(problem_type(""))
    return AdminRefused(answer.status_code, code, message)


def is_stored(shown: Document, wanted: Document) -> bool | None:
    """Return True if a document is stored already, as the admin API shows it. Return None if only its hidden secrets
    may differ."""
    found = _same(shown, dict(with_secret_sink(wanted)))
    return None if found and _hides(shown) else found


def _same(shown: Any, wanted: Any) -> bool:
    if shown == HIDDEN:
        return isinstance(wanted, str)
    if isinstance(shown, dict) and isinstance(wanted, dict):
        return shown.keys() == wanted.keys() and all(
            _same(shown[name], wanted[name]) for name in shown
        )
    if isinstance(shown, list) and isinstance(wanted, list):
        return len(shown) == len(wanted) and all(map(_same, shown, wanted))
    return bool(shown == wanted)


def _hides(shown: Any) -> bool:
    if isinstance(shown, dict):
        return any(map(_hides, shown.values()))
    if isinstance(shown, list):
        return any(map(_hides, shown))
    return bool(shown == HIDDEN)

"""The client of the API server: objects as mappings, over the connection of ``kubernetes_asyncio``.

The library finds the address, the certificates and the token, in a pod or by a kubeconfig, and renews the token.
Bodies are read here, because the library would write them into its log at level debug, Secrets too.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from kubernetes_asyncio import config as kube_config
from kubernetes_asyncio.client import ApiClient, Configuration

from app.errors import SkybridgeError
from app.interfaces.clock import ServerClock, TimeQuestion

Object = dict[str, Any]
Query = Mapping[str, str]

WITHIN = 10.0  # seconds for one answer
_QUICKLY = aiohttp.ClientTimeout(total=WITHIN)
_WATCHED_FOR = 60  # seconds after which a watch is renewed, so that a silent connection is noticed
_PAGE = "500"
_UNLIMITED = 0  # connections: each watch holds one, so a limit would leave none for the Lease
_OK = range(200, 300)
GONE, CONFLICT, NOT_FOUND, FORBIDDEN = 410, 409, 404, 403
_MERGE_PATCH = "application/merge-patch+json"


class KubernetesUnavailable(SkybridgeError):
    """The API server does not answer for now."""


class KubernetesRefused(SkybridgeError):
    """The API server refused a request. ``status`` is the status of its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubernetesClient:
    """A client with the rights of the pod, or those of the kubeconfig that ``KUBECONFIG`` names.

    ``clock`` gets the time of day of the API server from its answers."""

    def __init__(self, api: ApiClient, clock: ServerClock) -> None:
        self._api = api
        self._clock = clock

    @classmethod
    async def open(cls, clock: ServerClock) -> KubernetesClient:
        """Return a client. Raise KubernetesUnavailable if neither a pod nor a kubeconfig gives an address."""
        settings = Configuration()
        settings.connection_pool_maxsize = _UNLIMITED
        try:
            if os.environ.get("KUBECONFIG"):
                await kube_config.load_kube_config(client_configuration=settings)
            else:
                kube_config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except (kube_config.ConfigException, OSError) as error:
            raise KubernetesUnavailable(f"no access to Kubernetes: {error}") from None
        return cls(ApiClient(settings), clock)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    async def get(self, path: str, query: Query | None = None) -> Object:
        """Return an object or a list."""
        return await self._send("GET", path, query=query)

    async def create(self, path: str, item: Object) -> Object:
        """Create an object and return it."""
        return await self._send("POST", path, item)

    async def replace(self, path: str, item: Object) -> Object:
        """Replace an object. The API server refuses with 409 if its resource version is not the newest."""
        return await self._send("PUT", path, item)

    async def patch(self, path: str, change: Object) -> Object:
        """Change an object by a JSON merge patch and return it."""
        return await self._send("PATCH", path, change, content_type=_MERGE_PATCH)

    async def list(self, path: str, query: Query | None = None) -> tuple[list[Object], str]:
        """Return all objects of a list, and its resource version."""
        found: list[Object] = []
        more = ""
        while True:
            paged = {**(query or {}), "limit": _PAGE, **({"continue": more} if more else {})}
            page = await self.get(path, paged)
            found += page.get("items") or []
            more = page["metadata"].get("continue", "")
            if not more:
                return found, page["metadata"]["resourceVersion"]

    async def watch(
        self, path: str, version: str, query: Query | None = None
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Yield the changes of a list after a resource version, as type and object, for at most a minute. Raise
        KubernetesRefused with 410 if the API server no longer has that version."""
        asked = {
            **(query or {}),
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCHED_FOR),
        }
        limits = aiohttp.ClientTimeout(connect=WITHIN, sock_read=_WATCHED_FOR + WITHIN)
        answer = await self._request("GET", path, None, asked, limits)
        try:
            await _demand_success(answer)
            while line := await answer.content.readline():
                event = _decoded(line)
                if event["type"] == "ERROR":
                    raise _refused(event["object"].get("code", 500), event["object"])
                yield event["type"], event["object"]
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise KubernetesUnavailable(f"the watch of {path} ended: {error!r}") from None
        finally:
            answer.close()

    async def _send(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Query | None = None,
        content_type: str = "application/json",
    ) -> Object:
        try:
            async with asyncio.timeout(WITHIN):
                answer = await self._request(method, path, body, query, _QUICKLY, content_type)
                try:
                    await _demand_success(answer)
                    return _decoded(await answer.read())
                finally:
                    answer.release()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise KubernetesUnavailable(f"{method} {path}: {error!r}") from None

    async def _request(
        self,
        method: str,
        path: str,
        body: Object | None,
        query: Query | None,
        within: aiohttp.ClientTimeout,
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        question = self._clock.ask()
        try:
            answer: aiohttp.ClientResponse = await self._api.call_api(
                path,
                method,
                query_params=[*(query or {}).items()],
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=within,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise KubernetesUnavailable(f"{method} {path}: {error!r}") from None
        if answer.status in _OK:  # else it may be by a proxy
            self._note_time(answer.headers.get("Date", ""), question)
        return answer

    def _note_time(self, date: str, question: TimeQuestion) -> None:
        """Note the time of an answer. It may be a second later than the header, which has whole seconds."""
        try:
            server = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):  # a proxy may remove or damage the header
            return
        self._clock.measured(server, server + 1, question)


def _decoded(text: bytes) -> Object:
    """Return a JSON object. Raise ValueError if it is none, or is nested too deeply. A tenant can write such an object,
    and it must not end the work on others."""
    try:
        found: Object = json.loads(text)
    except RecursionError:
        raise ValueError("an object is nested too deeply") from None
    return found


async def _demand_success(answer: aiohttp.ClientResponse) -> None:
    """Raise KubernetesRefused if the answer is no success."""
    if answer.status in _OK:
        return
    try:
        told = json.loads(await answer.read())
    except (ValueError, RecursionError):
        told = {}
    raise _refused(answer.status, told if isinstance(told, dict) else {})


def _refused(status: int, told: Object) -> SkybridgeError:
    message = str(told.get("message") or f"status {status}")
    if status >= 500 or status == 429:  # noqa: PLR2004 - HTTP
        return KubernetesUnavailable(message)
    return KubernetesRefused(status, message)

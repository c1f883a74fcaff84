"""HTTP requests to the administration of a Pulsar cluster, which each of its brokers answers."""

from __future__ import annotations

from typing import Any

from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.pulsar.tokens import authentication
from app.libraries.httpx_client import httpx

_SERVER_ERRORS = 500


class AdminRequests:
    """Requests to the brokers that ``admin_url`` names. A broker that does not answer is followed by the next one.

    The brokers share the time limit of a question, so that one that is cut off does not use it up. All later requests go to
    the broker that answered last.
    """

    def __init__(self, settings: PulsarSettings) -> None:
        scheme, _, hosts = settings.admin_url.rstrip("/").partition("://")
        self._urls = [f"{scheme}://{host.strip()}" for host in hosts.split(",")]
        self._settings = settings
        self._preferred = 0
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request, and return the answer of the first broker that is not at fault, or the last answer.

        A request may reach several brokers, so it must be safe to repeat. Raises httpx.HTTPError if no broker answers.

        Args:
            method: The method of HTTP.
            path: The path at the broker.
            more: Arguments of ``httpx.AsyncClient.request``.
        """
        for _ in self._urls[1:]:
            number = self._preferred
            try:
                answer = await self._send_to(number, method, path, **more)
            except httpx.TransportError:
                pass
            else:
                if answer.status_code < _SERVER_ERRORS:
                    return answer
            if self._preferred == number:  # otherwise another request has changed it
                self._preferred = (number + 1) % len(self._urls)
        return await self._send_to(self._preferred, method, path, **more)

    async def send_to_each(self, method: str, path: str) -> list[httpx.Response]:
        """Send a request to every broker, and return their answers. Raises httpx.HTTPError if one does not answer."""
        return [await self._send_to(number, method, path) for number in range(len(self._urls))]

    async def _send_to(self, number: int, method: str, path: str, **more: Any) -> httpx.Response:
        client, url = self._client(), httpx.URL(self._urls[number] + path)
        limits = self._limits(len(self._urls) if method == "GET" else 1)
        answer = await client.request(method, url, timeout=limits, **more)
        refused = answer.status_code == httpx.codes.UNAUTHORIZED
        if refused and answer.history and answer.url.scheme == url.scheme:
            # httpx sends no login to another host than the first one, and the owner of the topic is another broker
            answer = await client.request(method, answer.url, timeout=limits, **more)
        return answer

    def _limits(self, brokers: int) -> httpx.Timeout:
        settings = self._settings
        return httpx.Timeout(
            settings.operation_timeout / brokers, connect=settings.connect_timeout / brokers
        )

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            settings = self._settings
            secure = settings.admin_url.startswith("https://")
            self._http = httpx.AsyncClient(
                auth=authentication(settings),
                verify=settings.ssl_context() if secure or settings.oauth2 else False,
                follow_redirects=True,  # a broker redirects to the one that serves the topic
                trust_env=False,
            )
        return self._http

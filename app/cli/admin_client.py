"""The client of the admin listener: it asks, and says what a refusal means to a person.

A verb that asks a service takes ``service: Service``, which is its options --server, --token and --json.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

from app.cli import exits, options, printing
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from app.cli.printing import Column
    from app.libraries.httpx_client import httpx

Server = Annotated[str, option("The admin listener of a service.", envvar="SKYBRIDGE_SERVER")]
Token = Annotated[str, option("Its token.", envvar="SKYBRIDGE_ADMIN_TOKEN", show_default=False)]
Broker = Annotated[
    str, option("The topic's broker, by its name in the configuration.", "--broker", "-b")
]
Subscription = Annotated[
    str, option("Only this subscription; all by default.", "--subscription", "-s")
]
Partition = Annotated[
    int | None, option("Only this partition; all by default.", "--partition", "-p", min=0)
]
Raw = Annotated[bool, option("Also show each record as it is on the wire.", "--raw")]
Yes = Annotated[bool, option("Do not ask.", "--yes", "-y")]

SERVER = "http://127.0.0.1:8081"
BROKER = "log"
WITHIN = 40.0  # seconds: beyond the longest that the service itself waits

_AWAY = "Start the service, or name its admin listener with --server."
_CURES = {
    401: "Give a token of server.admin with --token or SKYBRIDGE_ADMIN_TOKEN.",
    404: "Name the topic and --broker as the configuration has them; `skybridge topics list` lists "
    "all topics.",
    429: "Give the right token of server.admin: this address has sent too many wrong tokens.",
    503: ("Retry in a moment; `skybridge topics list` and /status show what does not answer."),
}

_SCOPE = "Use a token with the scope {}: see scopes under server.admin.tokens."

_CURES_AT = (  # where they are not those above: for paths that begin so
    (
        "/v1/config",
        {404: ("The service is older than this command: compare two files with --old.")},
    ),
    ("/v1/dead-letters", {404: "`skybridge dead-letters list` shows all dead letters."}),
    (
        "/v1/subscriptions",
        {
            404: ("`skybridge subscriptions list` shows all subscriptions."),
            412: ("The subscription has changed since: inspect it with `show`, and retry."),
            504: ("A worker must run; `skybridge subscriptions show` shows the status."),
        },
    ),
    (
        "/v1/subscriptions/[^/]*:replay",
        {409: ("`skybridge subscriptions replay ID --cancel` ends a running replay.")},
    ),
)


class Service(NamedTuple):
    """What the options of a verb name. Whatever is no success ends the verb."""

    server: Server = SERVER
    token: Token = ""
    as_json: Annotated[bool, option("Print one JSON object a line.", "--json")] = False

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """The JSON answer. What is empty or None in ``query`` is left out."""
        return read(self.server, self.request("GET", path, query))

    def post(self, path: str, json: Any = None, **more: Any) -> Any:
        """The JSON answer. ``more``: as ``request`` takes it."""
        return read(self.server, self.request("POST", path, json=json, **more))

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The answer as it is, headers and all. Its body is ``json``, or ``content`` with its headers."""
        import msgspec

        from app.libraries.httpx_client import httpx

        options.demand_address("--server", self.server, SERVER)
        sent = {**(headers or {}), **authorization(self.token)}
        if json is not None:
            content = msgspec.json.encode(json)
            sent["content-type"] = "application/json"
        try:
            answer = httpx.request(
                method,
                f"{self.server}{path}",
                params={name: it for name, it in (query or {}).items() if it not in (None, "", [])},
                content=content,
                headers=httpx.Headers(sent, encoding="utf-8"),
                timeout=httpx.Timeout(WITHIN, connect=10),
                trust_env=False,
                verify=options.has_certificate(self.server),
            )
        except (httpx.TransportError, httpx.InvalidURL) as fault:
            printing.nobody(self.server, fault, _AWAY)
        if not answer.is_success:
            refused(self.server, answer, _cures_at(path))
        return answer

    def show(self, found: Any, for_people: Callable[[Any], None]) -> None:
        """One JSON document with --json; else as ``for_people`` prints it."""
        (printing.json_line if self.as_json else for_people)(found)

    def show_all(self, found: Iterable[Any], columns: Sequence[Column]) -> None:
        """A line of JSON each with --json; else a table."""
        if self.as_json:
            for each in found:
                printing.json_line(each)
        else:
            printing.listing(columns, found)


def topic_path(broker: str, topic: str, what: str = "") -> str:
    """Slashes of a topic's name stay: Pulsar's have some."""
    from urllib.parse import quote

    return f"/v1/topics/{quote(broker, safe='')}/{quote(topic)}{what}"


def subscription_path(name: str, what: str = "") -> str:
    from urllib.parse import quote

    return f"/v1/subscriptions/{quote(name, safe='')}{what}"


def authorization(token: str) -> dict[str, str]:
    return options.authorization(token, "--token")


def read(server: str, answer: httpx.Response) -> Any:
    """The JSON of an answer. Ends the verb where something else answers there."""
    from app.event import json_text

    try:
        return json_text.loose(answer.content)
    except json_text.FAULTS:
        printing.fail(
            f"{server} does not answer as Skybridge does: {answer.status_code}, and no JSON.",
            cure=_AWAY,
            code=exits.UNREACHABLE,
        )


def _cures_at(path: str) -> Mapping[int, str]:
    found: dict[int, str] = {}
    for begin, cures in _CURES_AT:
        if re.match(begin, path):
            found |= cures
    return found


def refused(
    server: str, answer: httpx.Response, cures: Mapping[int, str] | None = None
) -> NoReturn:
    """Ends the verb with what a problem document says."""
    import msgspec

    try:
        problem = msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        problem = {}
    problem = problem if isinstance(problem, dict) else {}
    problem = {"status": answer.status_code, "title": answer.reason_phrase, **problem}
    if problem.get("scope"):
        cures = {403: _SCOPE.format(problem["scope"])}
    said(server, problem, cures)


def said(
    server: str, problem: Mapping[str, Any], cures: Mapping[int, str] | None = None
) -> NoReturn:
    status = problem.get("status", 0)
    away = status in {502, 503, 504}
    printing.fail(
        f"{server} refuses: {problem.get('detail') or problem.get('title')}",
        cure={**_CURES, **(cures or {})}.get(status, ""),
        code=exits.UNREACHABLE if away else exits.FAILED,
    )

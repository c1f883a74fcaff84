"""The client of the admin API. It sends requests and turns error answers into messages with a cure.

A command that sends requests has the parameter ``service: AdminClient``, whose fields are the
options --server, --token and --json.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

from app.cli import exits, options, printing, values
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from app.cli.printing import Column
    from app.libraries.httpx_client import httpx

SERVER = "http://127.0.0.1:8081"

Server = Annotated[
    str,
    option(
        "Send requests to this admin listener.",
        envvar="SKYBRIDGE_SERVER",
        callback=values.url(SERVER, is_base=True),
    ),
]
Token = Annotated[
    str,
    option(
        "Authenticate with this admin token, which the service has under server.admin; by default without a token.",
        envvar="SKYBRIDGE_ADMIN_TOKEN",
        show_default=False,
    ),
]
Broker = Annotated[
    str,
    option("Use the topic of the broker with this name in the configuration.", "--broker", "-b"),
]
Subscription = Annotated[
    str, option("Show only this subscription; by default all.", "--subscription", "-s")
]
Partition = Annotated[
    int | None, option("Read only this partition; by default all.", "--partition", "-p", min=0)
]
Raw = Annotated[bool, option("Also show each record as the broker stores it.", "--raw")]
Yes = Annotated[bool, option("Do not ask for confirmation.", "--yes", "-y")]

BROKER = "log"
TIMEOUT = 40.0  # seconds: longer than any wait of the service itself

_AWAY = "Start the service, or name its admin listener with --server."
_SIGN_IN = "Set --token or SKYBRIDGE_ADMIN_TOKEN to a token of server.admin."
_SCOPE = "Use a token with the scope {}: see scopes under server.admin.tokens."
_OTHER_LISTENER = "Name the admin listener of a service of this version with --server."


class AdminClient(NamedTuple):
    """A client with the options --server, --token and --json of a command. It sends requests to the
    admin listener at --server. An error answer ends the command.
    """

    server: Server = SERVER
    token: Token = ""
    as_json: Annotated[bool, option("Print one JSON object per line.", "--json")] = False

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON answer of a GET. Query parameters that are empty or None are left out."""
        return read(self.server, self.request("GET", path, query))

    def post(self, path: str, json: Any = None, **more: Any) -> Any:
        """Return the JSON answer of a POST. ``more`` is passed to ``request``."""
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
        """Send a request and return the successful answer.

        The body is ``json``, or the bytes of ``content`` with its own ``headers``. If the service
        cannot be reached or answers with an error, the command ends.
        """
        import msgspec

        from app.libraries.httpx_client import httpx

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
                timeout=httpx.Timeout(TIMEOUT, connect=10),
                trust_env=False,
                verify=options.needs_certificates(self.server),
            )
        except (httpx.TransportError, httpx.InvalidURL) as fault:
            printing.fail_unreachable(self.server, fault, _AWAY)
        if not answer.is_success:
            fail_with_answer(self.server, answer)
        return answer

    def demand_subscriptions(self, *names: str) -> None:
        """End the command if one of these subscriptions does not exist. A command calls it after it found nothing:
        there may be events of a subscription that was deleted. The API does not have the subscriptions that drain
        spools; their ids alone have a colon.
        """
        for name in names:
            if name and ":" not in name:
                self.get(subscription_path(name))

    def show(self, found: Any, for_people: Callable[[Any], None]) -> None:
        """Print ``found`` as one JSON document if --json is set. Otherwise call ``for_people`` to
        print ``found``.
        """
        (printing.json_line if self.as_json else for_people)(found)

    def show_all(self, found: Iterable[Any], columns: Sequence[Column]) -> None:
        """Print one JSON object per line if --json is set. Otherwise print a table."""
        if self.as_json:
            for each in found:
                printing.json_line(each)
        else:
            printing.print_rows(columns, found)


def topic_path(broker: str, topic: str, what: str = "") -> str:
    """Return the API path of a topic. Slashes in the topic name are not escaped, because names of
    Pulsar topics contain slashes.
    """
    from urllib.parse import quote

    return f"/v1/topics/{quote(broker, safe='')}/{quote(topic)}{what}"


def subscription_path(name: str, what: str = "") -> str:
    from urllib.parse import quote

    return f"/v1/subscriptions/{quote(name, safe='')}{what}"


def authorization(token: str) -> dict[str, str]:
    return options.authorization(token, "--token")


def read(server: str, answer: httpx.Response) -> Any:
    """Return the JSON of an answer. If the body is not JSON, the server is not Skybridge, so end
    the command.
    """
    from app.event import json_text

    try:
        return json_text.decode_lossless(answer.content)
    except json_text.NOT_JSON:
        printing.fail(
            f"{server} is not a Skybridge service: the answer has status {answer.status_code} and no JSON.",
            cure=_AWAY,
            code=exits.UNREACHABLE,
        )


def fail_with_answer(server: str, answer: httpx.Response) -> NoReturn:
    """End the command with the problem document of an error answer."""
    import msgspec

    from app.event.json_text import NOT_JSON

    try:
        problem = msgspec.json.decode(answer.content)
    except NOT_JSON:
        problem = {}
    problem = problem if isinstance(problem, dict) else {}
    problem = {"status": answer.status_code, "title": answer.reason_phrase, **problem}
    fail_with_problem(server, problem)


def fail_with_problem(server: str, problem: Mapping[str, Any]) -> NoReturn:
    """End the command. Print the detail of a problem document and its cure."""
    printing.fail(
        f"{server} refused the request: {problem.get('detail') or problem.get('title')}",
        cure=_cure(problem),
        code=exits.UNREACHABLE if problem.get("status") in {502, 503, 504} else exits.FAILED,
    )


def _cure(problem: Mapping[str, Any]) -> str:
    """Return the cure of a problem: that of its type, unless an option of the command is the cure."""
    from app.problems import cure_of, problem_type

    type_ = str(problem.get("type", ""))
    if problem.get("scope"):
        return _SCOPE.format(problem["scope"])
    if problem.get("status") == HTTPStatus.UNAUTHORIZED:
        return _SIGN_IN
    if type_ == problem_type("not-found"):
        return _OTHER_LISTENER
    return cure_of(type_)

"""Questions to the admin listener of a service, and what its refusals mean to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from app.cli import address, exits, printing

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

Server = Annotated[
    str, typer.Option(envvar="SKYBRIDGE_SERVER", help="The admin listener of a service.")
]
Token = Annotated[
    str, typer.Option(envvar="SKYBRIDGE_ADMIN_TOKEN", help="Its token.", show_default=False)
]
Broker = Annotated[
    str,
    typer.Option("--broker", "-b", help="The topic's broker, by its name in the configuration."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="This one alone; all by default.")
]
Raw = Annotated[bool, typer.Option("--raw", help="With each record as it is on the wire.")]

SERVER = "http://127.0.0.1:8081"
BROKER = "log"
WITHIN = 40.0  # seconds: beyond the longest that the service itself waits

_AWAY = "Start the service, or name its admin listener with --server."
_CURES = {
    401: "Give its server.admin.token with --token or SKYBRIDGE_ADMIN_TOKEN.",
    404: "Name the topic and --broker as the configuration has them; `skybridge topics list` lists "
    "all topics.",
    429: "Give the right server.admin.token: too many wrong ones came from this address.",
    503: "Try again in a moment; `skybridge topics list` and /status say what is away.",
}


def ask(
    server: str,
    token: str,
    path: str,
    query: Mapping[str, Any] | None = None,
    *,
    post: tuple[bytes, Mapping[str, str]] | None = None,
    cures: Mapping[int, str] | None = None,
) -> Any:
    """The JSON answer. ``query``: without what is None. ``post``: body and headers. ``cures``: by status,
    where they are not those of topics. Ends the verb for whatever is no success."""
    import msgspec

    method = "GET" if post is None else "POST"
    answer = request(method, server, token, path, query, content=post, cures=cures)
    return msgspec.json.decode(answer.content)


def request(
    method: str,
    server: str,
    token: str,
    path: str,
    query: Mapping[str, Any] | None = None,
    *,
    content: tuple[bytes | None, Mapping[str, str]] | None = None,
    cures: Mapping[int, str] | None = None,
) -> httpx.Response:
    """The answer as it is, headers and all. ``content``: body and headers. Ends the verb likewise."""
    import httpx

    address.demand("--server", server, SERVER)
    body, headers = content or (None, {})
    try:
        answer = httpx.request(
            method,
            f"{server}{path}",
            params={name: value for name, value in (query or {}).items() if value is not None},
            content=body,
            headers={**headers, **authorization(token)},
            timeout=httpx.Timeout(WITHIN, connect=10),
            trust_env=False,
        )
    except (httpx.TransportError, httpx.InvalidURL) as fault:
        address.nobody(server, fault, _AWAY)
    if not answer.is_success:
        refused(server, answer, cures)
    return answer


def post(server: str, token: str, path: str, body: Mapping[str, Any]) -> Any:
    """The JSON answer to a JSON body."""
    import msgspec

    content = {"content-type": "application/json"}
    return ask(server, token, path, post=(msgspec.json.encode(body), content))


def topic_path(broker: str, topic: str, what: str = "") -> str:
    """Slashes of a topic's name stay: Pulsar's have some."""
    from urllib.parse import quote

    return f"/v1/topics/{quote(broker, safe='')}/{quote(topic)}{what}"


def authorization(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


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
    said(server, {"status": answer.status_code, "title": answer.reason_phrase, **problem}, cures)


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

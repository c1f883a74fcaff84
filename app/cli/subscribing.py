"""What the verbs of ``skybridge subscriptions`` ask for, and how they say what came back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import asking, printing

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

PATH = "/v1/subscriptions"
CURES = {
    404: "`skybridge subscriptions list` shows those that there are.",
    409: "",
    412: "Somebody changed it in between: look at it with `show`, and try again.",
    504: "`skybridge subscriptions show` says how it fares; a worker must run.",
}
Name = Annotated[str, typer.Argument(help="Its id.", metavar="ID")]
_JSON = {"content-type": "application/json"}


def path_of(name: str) -> str:
    from urllib.parse import quote

    return f"{PATH}/{quote(name, safe='')}"


def ask(
    method: str,
    server: str,
    token: str,
    name: str,
    what: str = "",
    content: tuple[bytes | None, Mapping[str, str]] | None = None,
    *,
    cures: Mapping[int, str] | None = None,
) -> Any:
    """The answer of a request about one subscription; ``what`` is of it."""
    path = path_of(name) + what
    return asking.request(
        method, server, token, path, content=content, cures={**CURES, **(cures or {})}
    )


def etag(server: str, token: str, name: str) -> str:
    return str(ask("GET", server, token, name).headers["etag"])


def content(
    document: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> tuple[bytes, Mapping[str, str]]:
    import msgspec

    return msgspec.json.encode(document), {**_JSON, **(headers or {})}


def said(answer: httpx.Response, word: str, *, as_json: bool) -> None:
    """The document of an answer, and beside it what the change does to events that wait."""
    document = answer.json()
    if warning := answer.headers.get("skybridge-warning"):
        printing.err().print(f"warning {warning}", markup=False)
    if as_json:
        printing.json_line(document)
    else:
        printing.text_line(f"{word}  {document['id']}")


def fares(standing: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        printing.json_line(standing)
    else:
        health = standing["health"]
        cause = health["cause"].removeprefix(f"{health['state']}: ")
        why = f": {cause}" if cause else ""
        printing.text_line(f"{standing['id']} is {health['state']}{why}")

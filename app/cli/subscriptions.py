"""``skybridge subscriptions``: which events go where, made and changed while the service runs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import asking, exits, printing, replaying, subscribing, subscription_files, verbs
from app.cli.asking import SERVER, Json, Server, Token
from app.cli.subscribing import CURES, PATH, Name

if TYPE_CHECKING:
    from collections.abc import Mapping

app = verbs.group(
    "subscriptions",
    "Which events go where: made, changed, paused and tried while the service runs.\n\n"
    "Subscriptions of the configuration file are listed, paused, tested and replayed here; they are "
    "changed in the file. Others are kept in the store, and taken up within a second by every worker. "
    "A document is the same in the file and here: `export` writes what the file takes, `create --file` "
    "takes what stands there.",
)
_verb = functools.partial(verbs.verb, app)

File = Annotated[
    str, typer.Option("--file", "-f", help="YAML as in the configuration; - is standard input.")
]
Etag = Annotated[
    str, typer.Option("--if-match", help="Only if its ETag is this; by default as it is now.")
]


@_verb(
    "list",
    "skybridge subscriptions list",
    "skybridge subscriptions list --state paused",
    "skybridge subscriptions list --broker main --json | jq .health.lag",
)
def list_(
    broker: Annotated[str, typer.Option("--broker", "-b", help="That read from this one.")] = "",
    state: Annotated[str, typer.Option(help="running, paused, disabled, broken ...")] = "",
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """List subscriptions, of the file and of the API, and how each fares.

    OLDEST is the age of the oldest event that is taken or parked and not delivered."""
    query = {"broker": broker or None, "state": state or None}
    found = asking.ask(server, token, PATH, query, cures=CURES)
    if as_json:
        for each in found:
            printing.json_line(each)
        return
    columns = (
        "id",
        "made by",
        "state",
        "broker",
        "lag",
        "parked",
        "oldest",
        "dead letters",
        "to",
    )
    printing.table(
        columns, [(each["id"], each["origin"], *_fares(each["health"])) for each in found]
    )


def _fares(health: Mapping[str, Any]) -> tuple[Any, ...]:
    ages = (health["oldest"], health["parked"]["oldest_seconds"])
    oldest = max((age for age in ages if age is not None), default=None)
    return (
        health["state"],
        "up" if health["broker_health"]["healthy"] else "down",
        health["lag"],
        health["parked"]["rows"],
        None if oldest is None else f"{oldest:.0f}s",
        sum(health["dead_letters"].values()),
        health["sink"],
    )


@_verb(
    "show", "skybridge subscriptions show billing", "skybridge subscriptions show billing --json"
)
def show(name: Name, server: Server = SERVER, token: Token = "", as_json: Json = False) -> None:
    """Show how a subscription fares, and its document."""
    document = subscribing.ask("GET", server, token, name).json()
    status = subscribing.ask("GET", server, token, name, "/status").json()
    if as_json:
        printing.json_line({**status, "document": document})
        return
    health = status["health"]
    told = {
        "made by": status["place"] or status["origin"],
        "state": health["state"],
        "cause": health["cause"] or "; ".join(status["faults"]),
        "broker": health["broker_health"]["cause"],
        "partitions": ", ".join(health["partitions"]),
        "parked": health["parked"]["rows"] or None,
        **{word: health[word] for word in ("lag", "held", "in_flight", "last_error")},
        "filter errors": health["filter_errors"] or None,
        "etag": status["etag"],
    }
    for word, value in told.items():
        if value not in ("", None):
            printing.text_line(f"{word:<13} {printing.one_line(str(value))}")
    for warning in status["warnings"]:
        printing.text_line(f"{'warning':<13} {warning}")
    printing.text_line("")
    printing.text_line(subscription_files.write([document])[0].rstrip())


@_verb(
    "create",
    "skybridge subscriptions create --id billing --topic events --sink https://billing.example/hook",
    "skybridge subscriptions create --topic events --type com.example.order.created --sink http://127.0.0.1:9000/",
    "skybridge subscriptions create --file billing.yaml",
    "skybridge subscriptions export billing | ssh other skybridge subscriptions create --file -",
)
def create(
    file: File = "",
    id_: Annotated[str, typer.Option("--id", help="Its id; one of ours by default.")] = "",
    sink: Annotated[str, typer.Option(help="URL that events are posted to.")] = "",
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Topic to read; may be repeated.")
    ] = None,
    broker: Annotated[str, typer.Option("--broker", "-b", help="Its broker.")] = asking.BROKER,
    type_: Annotated[
        list[str] | None, typer.Option("--type", "-t", help="Events of this type only.")
    ] = None,
    start: Annotated[str, typer.Option(help="earliest or latest.")] = "latest",
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Make subscriptions: those of a file, or one of options."""
    if bool(file) == bool(sink):
        printing.fail(
            "one way to say what to make.", cure="give --file, or --sink", code=exits.SETUP
        )
    documents = subscription_files.read(file) if file else [
        {
            **({"id": id_} if id_ else {}),
            "source": {"broker": broker, "topics": topic or []},
            "start": start,
            "filters": [{"any": [{"exact": {"type": each}} for each in type_]}] if type_ else [],
            "sink": sink,
        }
    ]  # fmt: skip
    for document in documents:
        answer = asking.request(
            "POST", server, token, PATH, content=subscribing.content(document), cures=CURES
        )
        subscribing.said(answer, "made", as_json=as_json)


@_verb("replace", "skybridge subscriptions replace billing --file billing.yaml")
def replace(
    name: Name,
    file: File,
    if_match: Etag = "",
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Put another document in the place of what it is."""
    documents = subscription_files.read(file)
    if len(documents) != 1:
        printing.fail(f"{file} holds {len(documents)} subscriptions, and one is replaced.")
    etag = if_match or subscribing.etag(server, token, name)
    document = {"id": name, **documents[0]}
    answer = subscribing.ask(
        "PUT", server, token, name, content=subscribing.content(document, {"if-match": etag})
    )
    subscribing.said(answer, "replaced", as_json=as_json)


@_verb(
    "patch",
    "skybridge subscriptions patch billing '{\"concurrency\": 8}'",
    "skybridge subscriptions patch billing '{\"retry\": null}'      # back to its default",
    "skybridge subscriptions patch billing @change.json",
)
def patch(
    name: Name,
    change: Annotated[str, typer.Argument(help="A JSON merge patch (RFC 7396); @FILE reads one.")],
    if_match: Etag = "",
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Change some settings."""
    etag = if_match or subscribing.etag(server, token, name)
    headers = {"content-type": "application/merge-patch+json", "if-match": etag}
    body = subscription_files.argument(change)
    answer = subscribing.ask("PATCH", server, token, name, content=(body, headers))
    subscribing.said(answer, "changed", as_json=as_json)


@_verb("delete", "skybridge subscriptions delete billing --yes")
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Delete it: what waits for it is finished, but for its dead letters."""
    if not yes:
        typer.confirm(f"delete {name} and what waits for it?", abort=True, err=True)
    subscribing.said(subscribing.ask("DELETE", server, token, name), "deleted", as_json=as_json)


@_verb("pause", "skybridge subscriptions pause billing --cause 'until the migration is done'")
def pause(
    name: Name,
    cause: Annotated[str, typer.Option(help="Why, for those who find it paused.")] = "",
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Deliver nothing until it is resumed; its place is kept."""
    answer = subscribing.ask(
        "POST", server, token, name, ":pause", content=subscribing.content({"cause": cause})
    )
    subscribing.fares(answer.json(), as_json=as_json)


@_verb("resume", "skybridge subscriptions resume billing")
def resume(name: Name, server: Server = SERVER, token: Token = "", as_json: Json = False) -> None:
    """Deliver again, after a pause or after its target answered 410."""
    subscribing.fares(
        subscribing.ask("POST", server, token, name, ":resume").json(), as_json=as_json
    )


@_verb(
    "test",
    "skybridge subscriptions test billing",
    "skybridge subscriptions test billing --event @order.json",
)
def try_(
    name: Name,
    event: Annotated[
        str, typer.Option(help="The event in the JSON format, or @FILE; one of ours by default.")
    ] = "",
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Send one event to its target now, past filters, lanes and pauses, and say what came back.

    Exits with 1 when the target did not take it.
    """
    content = None
    if event:
        headers = {"content-type": "application/cloudevents+json"}
        content = (subscription_files.argument(event), headers)
    found = subscribing.ask("POST", server, token, name, ":test", content=content).json()
    if as_json:
        printing.json_line(found)
    else:
        said = found["status"] or f"{found['fault']}: {found['detail']}"
        printing.text_line(f"{said}  in {found['duration_ms']:.0f} ms")
        if found["response"]:
            printing.text_line(printing.one_line(found["response"]))
    if not found["delivered"]:
        raise typer.Exit(exits.FAILED)


@_verb(
    "export",
    "skybridge subscriptions export > made.yaml",
    "skybridge subscriptions export billing audit",
)
def export(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="These; all that the API made by default.", metavar="ID"),
    ] = None,
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Print subscriptions as YAML that the configuration file takes.

    Secrets are never shown: a reference to an environment variable stands for each.
    """
    listed = asking.ask(server, token, PATH, cures=CURES)
    documents = list(subscription_files.documents_of(listed, names or ()))
    if as_json:
        for document in documents:
            printing.json_line(document)
        return
    text, missing = subscription_files.write(documents)
    printing.text_line(text.rstrip())
    for variable in missing:
        printing.err().print(f"set {variable} to the secret", markup=False)


_verb("replay", *replaying.EXAMPLES)(replaying.run)

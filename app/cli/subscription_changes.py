"""``skybridge subscriptions`` creates, replaces, changes, moves and deletes subscriptions of a running service."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from app.cli import admin_client, exits, options, printing, subscription_files, values
from app.cli.admin_client import AdminClient, Yes, subscription_path
from app.cli.subscriptions import PATH, Name, app
from app.cli.verbs import option

_OF_A_SUBSCRIPTION = ("id_", "topic", "broker", "type_", "start")

File = Annotated[
    str,
    option(
        "Read this YAML file, in the form of the configuration; - reads standard input.",
        "--file",
        "-f",
    ),
]
Etag = Annotated[
    str,
    option(
        "Change the subscription only if it has this ETag; by default the present ETag of the subscription.",
        "--if-match",
    ),
]


@app.verb(
    "create",
    "skybridge subscriptions create --id billing --topic events --sink https://billing.example/hook",
    "skybridge subscriptions create --topic events --type com.example.order.created --sink http://127.0.0.1:9000/",
    "skybridge subscriptions create --file billing.yaml",
    "skybridge subscriptions export billing | ssh other skybridge subscriptions create --file -",
)
def create(
    file: File = "",
    id_: Annotated[str, option("Set the id of the subscription; by default a generated id.")] = "",
    sink: Annotated[
        str,
        option("Deliver events to this URL.", callback=values.url("https://billing.example/hook")),
    ] = "",
    topic: Annotated[list[str] | None, option("Read this topic; may be repeated.")] = None,
    broker: Annotated[str, option("Read the topics of this broker.", "-b")] = admin_client.BROKER,
    type_: Annotated[
        list[str] | None,
        option("Deliver only events of this type; may be repeated; by default all.", "-t"),
    ] = None,
    start: Annotated[
        Literal["earliest", "latest"], option("Start with the earliest or the latest events.")
    ] = "latest",
    *,
    service: AdminClient,
) -> None:
    """Create subscriptions from a file or from options.

    The file has one subscription or a list, in the form of the configuration.
    """
    if bool(file) == bool(sink):
        printing.fail(
            "create needs either --file or --sink.",
            cure="Add --file FILE, or --sink URL with --topic.",
            code=exits.SETUP,
        )
    if file:
        options.refuse_ineffective("--file has whole subscriptions", *_OF_A_SUBSCRIPTION)
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
        _change(service, "POST", PATH, "created", json=document)


@app.verb("replace", "skybridge subscriptions replace billing --file billing.yaml")
def replace(name: Name, file: File, if_match: Etag = "", *, service: AdminClient) -> None:
    """Replace the document of a subscription."""
    documents = subscription_files.read(file)
    if len(documents) != 1:
        printing.fail(
            f"{file} has {printing.counted(len(documents), 'subscription')}, and replace takes one.",
            cure="Write one subscription into the file.",
        )
    headers = {"if-match": if_match or _etag(service, name)}
    document = {"id": name, **documents[0]}
    _change(service, "PUT", subscription_path(name), "replaced", json=document, headers=headers)


@app.verb(
    "patch",
    "skybridge subscriptions patch billing '{\"concurrency\": 8}'",
    "skybridge subscriptions patch billing '{\"retry\": null}'      # back to its default",
    "skybridge subscriptions patch billing @change.json",
)
def patch(
    name: Name,
    change: Annotated[
        str,
        typer.Argument(
            help="Apply this JSON merge patch (RFC 7396); @FILE reads the patch from a file."
        ),
    ],
    if_match: Etag = "",
    *,
    service: AdminClient,
) -> None:
    """Change some settings of a subscription."""
    etag = if_match or _etag(service, name)
    headers = {"content-type": "application/merge-patch+json", "if-match": etag}
    content = options.argument(change)
    _change(service, "PATCH", subscription_path(name), "changed", content=content, headers=headers)


@app.verb(
    "move",
    "skybridge subscriptions move billing audit --sharing topic",
    "skybridge subscriptions move billing --sharing none",
)
def move(
    names: Annotated[
        list[str], typer.Argument(help="Move the subscriptions with these ids.", metavar="ID")
    ],
    sharing: Annotated[
        Literal["topic", "none"],
        option(
            "Share the membership of the Kafka topic (topic), or give each a group of its own (none)."
        ),
    ],
    *,
    service: AdminClient,
) -> None:
    """Move subscriptions into a shared membership, or back.

    Their positions move with them, so no event is lost or skipped. A subscription of the configuration file
    moves in the same way when `sharing` is changed in the file and the service reloads.
    """
    for name in names:
        headers = {
            "content-type": "application/merge-patch+json",
            "if-match": _etag(service, name),
        }
        content = json.dumps({"sharing": sharing}).encode()
        path = subscription_path(name)
        _change(service, "PATCH", path, "moved", content=content, headers=headers)


@app.verb("delete", "skybridge subscriptions delete billing --yes")
def delete(name: Name, yes: Yes = False, *, service: AdminClient) -> None:
    """Delete a subscription and its waiting events.

    Its dead letters stay.
    """
    if not yes:
        typer.confirm(f"Delete {name} and its waiting events?", abort=True, err=True)
    _change(service, "DELETE", subscription_path(name), "deleted")


def _etag(service: AdminClient, name: str) -> str:
    return str(service.request("GET", subscription_path(name)).headers["etag"])


def _change(service: AdminClient, method: str, path: str, done: str, **sent: Any) -> None:
    """Send a change to the service. Print the document of the answer, and the answer's warning
    about waiting events, if any.
    """
    answer = service.request(method, path, **sent)
    if warning := answer.headers.get("skybridge-warning"):
        printing.err().print(f"warning {warning}", markup=False)
    changed = admin_client.read(service.server, answer)
    service.show(changed, lambda found: printing.text_line(f"{done}  {found['id']}"))

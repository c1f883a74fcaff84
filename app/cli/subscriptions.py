"""``skybridge subscriptions`` lists, creates, changes, pauses and tests subscriptions of a running
service.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import admin_client, exits, options, printing, subscription_files, verbs
from app.cli.admin_client import AdminClient, Yes, subscription_path
from app.cli.states import state_word
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.cli.printing import Column

app = verbs.group(
    "subscriptions",
    "List, create, change, pause or test subscriptions.\n\n"
    "Subscriptions of the configuration file can be listed, paused, tested and replayed here; change them "
    "in the file. Others are in the store, and every worker applies a change within a second. The file and "
    "the API use the same document: `export` writes the form of the file, and `create --file` reads it.",
)

PATH = "/v1/subscriptions"
_OF_A_SUBSCRIPTION = ("id_", "topic", "broker", "type_", "start")
Name = Annotated[str, typer.Argument(help="Use the subscription with this id.", metavar="ID")]

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
    "list",
    "skybridge subscriptions list",
    "skybridge subscriptions list --state paused",
    "skybridge subscriptions list --broker main --json | jq .health.lag",
)
def list_(
    broker: Annotated[
        str, option("List only subscriptions that read from this broker; by default all.", "-b")
    ] = "",
    state: Annotated[
        str,
        option(
            "List only subscriptions in this state: starting, running, paused, disabled, restarting, stopping, stopped, "
            "broken or elsewhere; by default all."
        ),
    ] = "",
    *,
    service: AdminClient,
) -> None:
    """List all subscriptions with their state.

    These are the subscriptions of the file and those of the API. STATE is `target fails` or `queue full`
    while the service pauses the subscription (its state is then paused in --json). OLDEST is the age of the oldest
    event that was read or parked and is not delivered. ANSWERS counts the attempts of this process
    by status, or by fault if no answer came: the three most frequent. NEEDS names what needs a
    person, as skybridge status does.
    """
    service.show_all(service.get(PATH, {"broker": broker, "state": state}), _SUBSCRIPTIONS)


def _oldest(each: Mapping[str, Any]) -> str | None:
    ages = (each["health"]["oldest"], each["health"]["parked"]["oldest_seconds"])
    oldest = max((age for age in ages if age is not None), default=None)
    return None if oldest is None else f"{oldest:.0f}s"


def _cause(each: Mapping[str, Any]) -> str | None:
    """Return why the subscription is paused, disabled or broken, or None."""
    health = each["health"]
    return printing.escape_line(health["cause"].removeprefix(f"{health['state']}: ")) or None


def _needs(each: Mapping[str, Any]) -> str | None:
    """Return the names of the verdicts on what needs a person, or None."""
    return ",".join(one["verdict"] for one in each["health"]["attention"]) or None


def _answers(counts: Mapping[str, int]) -> str | None:
    """Return the three most frequent answers with their counts, without spaces, because awk reads
    the line too.
    """
    most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:3]
    return ",".join(f"{answer}:{count}" for answer, count in most) or None


_SUBSCRIPTIONS: Sequence[Column] = (
    "id",
    ("made by", "origin"),
    ("state", lambda each: state_word(each["health"])),
    ("broker", lambda each: "up" if each["health"]["broker_health"]["healthy"] else "down"),
    ("lag", "health.lag"),
    ("parked", "health.parked.rows"),
    ("oldest", _oldest),
    ("dead letters", lambda each: sum(each["health"]["dead_letters"].values())),
    ("filter errors", "health.filter_errors"),
    ("answers", lambda each: _answers(each["health"]["answers"])),
    ("needs", _needs),
    ("to", "health.sink"),
    ("cause", _cause),
)


@app.verb(
    "show", "skybridge subscriptions show billing", "skybridge subscriptions show billing --json"
)
def show(name: Name, *, service: AdminClient) -> None:
    """Show the status of a subscription and its document."""
    document = service.get(subscription_path(name))
    status = service.get(subscription_path(name, "/status"))
    service.show({**status, "document": document}, _show)


def _show(status: Mapping[str, Any]) -> None:
    health = status["health"]
    rows = {
        "made by": status["place"] or status["origin"],
        "state": state_word(health),
        "cause": health["cause"] or "; ".join(status["faults"]),
        "needs": _needs(status),
        "broker": health["broker_health"]["cause"],
        "partitions": ", ".join(health["partitions"]),
        "parked": health["parked"]["rows"] or None,
        **{word: health[word] for word in ("lag", "held", "in_flight", "last_error")},
        "filter errors": health["filter_errors"] or None,
        "answers": _answers(health["answers"]),
        "etag": status["etag"],
    }
    for word, value in rows.items():
        if value not in ("", None):
            printing.text_line(f"{word:<13} {printing.escape_line(str(value))}")
    for warning in status["warnings"]:
        printing.text_line(f"{'warning':<13} {warning}")
    printing.text_line("")
    printing.text_line(subscription_files.write([status["document"]])[0].rstrip())


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
    sink: Annotated[str, option("Deliver events to this URL.")] = "",
    topic: Annotated[list[str] | None, option("Read this topic; may be repeated.")] = None,
    broker: Annotated[str, option("Read the topics of this broker.", "-b")] = admin_client.BROKER,
    type_: Annotated[
        list[str] | None,
        option("Deliver only events of this type; may be repeated; by default all.", "-t"),
    ] = None,
    start: Annotated[str, option("Start with the earliest or the latest events.")] = "latest",
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
        str,
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


@app.verb("pause", "skybridge subscriptions pause billing --cause 'until the migration is done'")
def pause(
    name: Name,
    cause: Annotated[
        str, option("Set the reason that is shown with the subscription; by default no reason.")
    ] = "",
    *,
    service: AdminClient,
) -> None:
    """Pause a subscription, and keep its position.

    Nothing is delivered until the subscription is resumed.
    """
    service.show(service.post(subscription_path(name, ":pause"), {"cause": cause}), _show_state)


@app.verb("resume", "skybridge subscriptions resume billing")
def resume(name: Name, *, service: AdminClient) -> None:
    """Resume a paused or disabled subscription.

    A subscription is disabled after its target answered 410.
    """
    service.show(service.post(subscription_path(name, ":resume")), _show_state)


def _show_state(standing: Mapping[str, Any]) -> None:
    health = standing["health"]
    cause = health["cause"].removeprefix(f"{health['state']}: ")
    why = f": {cause}" if cause else ""
    printing.text_line(f"{standing['id']}: {state_word(health)}{why}")


@app.verb(
    "test",
    "skybridge subscriptions test billing",
    "skybridge subscriptions test billing --event @order.json",
)
def try_(
    name: Name,
    event: Annotated[
        str,
        option(
            "Send this event in the JSON format; @FILE reads the event from a file; by default a generated event."
        ),
    ] = "",
    *,
    service: AdminClient,
) -> None:
    """Send one test event to the target of a subscription.

    The event is sent at once: filters, pauses and the order of keys do not apply. The command
    prints the answer, and exits with 1 if the target refuses the event.
    """
    sent: dict[str, Any] = {}
    if event:
        headers = {"content-type": "application/cloudevents+json"}
        sent = {"content": options.argument(event), "headers": headers}
    found = service.post(subscription_path(name, ":test"), **sent)
    service.show(found, _show_attempt)
    if not found["delivered"]:
        raise typer.Exit(exits.FAILED)


def _show_attempt(found: Mapping[str, Any]) -> None:
    said = found["status"] or f"{found['fault']}: {found['detail']}"
    printing.text_line(f"{said}  in {found['duration_ms']:.0f} ms")
    if found["response"]:
        printing.text_line(printing.escape_line(found["response"]))
    if found.get("next"):
        printing.text_line(f"Events wait for their next attempt; try them now: {found['next']}")


@app.verb(
    "export",
    "skybridge subscriptions export > made.yaml",
    "skybridge subscriptions export billing audit",
)
def export(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Print only these subscriptions; by default all that the API created.",
            metavar="ID",
        ),
    ] = None,
    *,
    service: AdminClient,
) -> None:
    """Print subscriptions as YAML for the configuration file.

    Secrets are never shown: each is replaced by a reference to an environment variable.
    """
    listed = service.get(PATH)
    documents = list(subscription_files.documents_of(listed, names or ()))
    if service.as_json:
        service.show_all(documents, ())
        return
    text, missing = subscription_files.write(documents)
    printing.text_line(text.rstrip())
    for variable in missing:
        printing.err().print(f"Set the variable {variable} to the secret.", markup=False)

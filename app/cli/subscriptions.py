"""``skybridge subscriptions`` lists, pauses, tests and exports subscriptions of a running service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import exits, options, printing, states, subscription_files, verbs
from app.cli.admin_client import AdminClient, subscription_path
from app.cli.states import StateWord, api_state, state_word
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
Name = Annotated[str, typer.Argument(help="Use the subscription with this id.", metavar="ID")]


@app.verb(
    "list",
    "skybridge subscriptions list",
    "skybridge subscriptions list --state 'target fails'",
    "skybridge subscriptions list --broker main --json | jq .health.lag",
)
def list_(
    broker: Annotated[
        str, option("List only subscriptions that read from this broker; by default all.", "-b")
    ] = "",
    state: Annotated[
        StateWord | None,
        option(
            "List only subscriptions with this word in the column STATE, such as running, paused, 'target fails' or "
            "'queue full'; by default all.",
            metavar="STATE",
        ),
    ] = None,
    *,
    service: AdminClient,
) -> None:
    """List all subscriptions with their state.

    These are the subscriptions of the file and those of the API. STATE is `target fails` or `queue full`
    while the service pauses the subscription (its state is then paused in --json). OLDEST is the age of the oldest
    event that was read or parked and is not delivered. A dash means that a value is unknown, or that there is
    none. ANSWERS counts the attempts of this process
    by status, or by fault if no answer came: the three most frequent. NEEDS names what needs a
    person, as skybridge status does.
    """
    found = service.get(PATH, {"broker": broker, "state": api_state(state)})
    shown = [each for each in found if state in (None, state_word(each["health"]))]
    service.show_all(shown, _SUBSCRIPTIONS)


def _oldest(each: Mapping[str, Any]) -> str | None:
    oldest = states.oldest_seconds(each["health"])
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
    ("parked", lambda each: states.parked_rows(each["health"])),
    ("oldest", _oldest),
    ("dead letters", lambda each: states.dead_letters(each["health"])),
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
    lines = {
        "made by": status["place"] or status["origin"],
        "state": state_word(health),
        "cause": health["cause"] or "; ".join(status["faults"]),
        "needs": _needs(status),
        "broker": health["broker_health"]["cause"],
        "partitions": ", ".join(health["partitions"]),
        "parked": "unknown" if (rows := states.parked_rows(health)) is None else rows or None,
        **{word: health[word] for word in ("lag", "held", "in_flight", "last_error")},
        "filter errors": health["filter_errors"] or None,
        "answers": _answers(health["answers"]),
        "etag": status["etag"],
    }
    for word, value in lines.items():
        if value not in ("", None):
            printing.text_line(f"{word:<13} {printing.escape_line(str(value))}")
    for warning in status["warnings"]:
        printing.text_line(f"{'warning':<13} {warning}")
    printing.text_line("")
    printing.text_line(subscription_files.write([status["document"]])[0].rstrip())


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

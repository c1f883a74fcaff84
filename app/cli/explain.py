"""``skybridge explain`` shows what would happen to an event, and why, without sending it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import admin_client, exits, options, printing, values
from app.cli.admin_client import AdminClient
from app.cli.options import Attributes, Data, EventType, Source, Subject
from app.cli.states import state_word
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OF_AN_EVENT = ("source", "id_", "subject", "attribute", "data")


@verb(
    "explain",
    "skybridge explain --type com.example.order.created -a partitionkey=order-7",
    "skybridge explain event.json",
    "skybridge explain event.json --as-from main/orders       # an event that another client writes to the topic",
    "skybridge explain event.json --config skybridge.yaml      # no service needed",
    "skybridge explain event.json --producer shop              # is it allowed to send it?",
    "skybridge explain event.json --route orders --json | jq '.hops[].subscriptions'",
)
def run(
    file: Annotated[
        Path | None,
        typer.Argument(help="Explain this JSON event or batch; - reads standard input."),
    ] = None,
    config: Annotated[
        Path | None, option("Use this configuration file instead of a running service.", "-c")
    ] = None,
    route: Annotated[
        str,
        option(
            "Explain a request that is posted to the route with this name; by default the filters choose the route."
        ),
    ] = "",
    as_from: Annotated[
        str,
        option(
            "Explain an event that another client wrote to this topic; no route applies to such an event.",
            metavar="BROKER/TOPIC",
            callback=values.target,
        ),
    ] = "",
    producer: Annotated[
        str, option("Also check the rights of this producer; by default no rights are checked.")
    ] = "",
    type_: EventType = "",
    source: Source = "/skybridge/explain",
    id_: Annotated[str, option("Set the id of the event.")] = "1",
    subject: Subject = "",
    attribute: Attributes = None,
    data: Data = "",
    key: Annotated[str, option("Set the record key of the request; by default none.", "-k")] = "",
    *,
    service: AdminClient,
) -> None:
    """Explain what would happen to an event.

    The output shows which route the event would take, its key, its topics and the subscriptions
    that would get it. It names the part of each filter that decided. Nothing is sent. Exits with 1
    if the event would be refused.
    """
    extensions = options.attributes(attribute or [])
    if (file is None) == (not type_):
        printing.fail(
            "explain needs either a FILE with an event, or --type.",
            cure="Run skybridge explain --type com.example.order.created -a partitionkey=order-7.",
            code=exits.SETUP,
        )
    if as_from:
        options.refuse_ineffective("no route applies to an event of another client", "route")
        options.refuse_ineffective("another client writes to the topic, not a producer", "producer")
    if config is not None:
        options.refuse_ineffective("--config asks no service", "server", "token")
    if file is not None:
        options.refuse_ineffective("FILE has whole events", *_OF_AN_EVENT)
        body = options.content(file)
        headers = {"content-type": _media_type(body)}
    else:
        body, headers = _made(type_, source, id_, subject, extensions, data)
    if key:
        headers["skybridge-key"] = options.require_header_value("--key", key)
    journeys = (
        service.post(
            "/v1/explain",
            query={"route": route, "as_from": as_from, "producer": producer},
            content=body,
            headers=headers,
        )
        if config is None
        else _by_configuration(
            config, body, headers, route or None, as_from or None, producer or None
        )
    )
    for journey in journeys:
        service.show(journey, lambda found: printing.text_line("\n".join(text_lines(found))))
    if not all(journey["accepted"] for journey in journeys):
        raise typer.Exit(exits.FAILED)


def _media_type(body: bytes) -> str:
    batch = body.lstrip().startswith(b"[")
    return f"application/cloudevents{'-batch' if batch else ''}+json"


def _made(
    type_: str, source: str, id_: str, subject: str, extensions: Mapping[str, str], data: str
) -> tuple[bytes, dict[str, str]]:
    from app.cli import event_input

    recipe = event_input.Recipe(
        type_, source, id_, subject, extensions=extensions, data=options.data(data)
    )
    message = event_input.request(recipe)
    return message.body, dict(message.headers)


def _by_configuration(
    file: Path,
    body: bytes,
    headers: Mapping[str, str],
    route: str | None,
    as_from: str | None,
    producer: str | None,
) -> list[Any]:
    """Return the explanations that follow from a configuration file alone. No broker is asked, so
    the explanations have no partition numbers and no states of subscriptions.
    """
    from app.api.explain import journeys
    from app.api.http import problems
    from app.bindings import http
    from app.config.derived.kinds import guide_of, kinds_of, rights_of
    from app.errors import SenderError

    settings = options.configuration(file)
    key = headers.get("skybridge-key")
    try:
        decoded = http.decode(
            [(name.encode(), text.encode()) for name, text in headers.items()], body
        )
    except SenderError as error:
        admin_client.fail_with_problem(
            str(file), problems.document(error.status, error.code, str(error), error.faults)
        )
    guide, kinds = guide_of(settings), kinds_of(settings)
    rights = None if producer is None else rights_of(settings, producer)
    key_bytes = None if key is None else key.encode()
    found = [
        journeys.explain_as(guide, each, key_bytes, route, rights, as_from) for each in decoded
    ]
    required = settings.server.events.access == "producers"
    unnamed = required and producer is None and as_from is None
    return [journeys.to_json(each, kinds, {}, {}, needs_producer=unnamed) for each in found]


def text_lines(journey: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an explanation for a person, indented by cause and effect."""
    yield from _head(journey)
    for route in journey["routes"]:
        yield from _route(route)
    if (key := journey["key"]) is not None:
        yield f"key     {_key(key)}  {key['mapper']}: {key['why']}"
    if (problem := journey["refused"]) is not None:
        yield f"refused {problem['status']}  {problem['detail']}"
        if problem["type"].endswith("no-route"):
            yield "        --as-from BROKER/TOPIC explains an event that another client writes there"
    for hop in journey["hops"]:
        yield from _hop(hop, "")
    for hop in journey["outside"]:
        yield f"outside {hop['broker']}/{hop['topic']}  no route writes there; if another client does:"
        for each in hop["subscriptions"]:
            yield from _subscription(each, "  ")


def _head(journey: Mapping[str, Any]) -> Iterator[str]:
    event = journey["event"]
    yield f"event   {event['type']}  id {event['id']}  source {event['source']}"
    if journey["needs_producer"]:
        yield "sender  any producer; without a credential the answer is 401"
        yield "        --producer NAME also checks the rights of that producer"


def _route(route: Mapping[str, Any]) -> Iterator[str]:
    word = "taken" if route["chosen"] else "passed over" if route["asked"] else "not asked"
    yield f"route   {route['name']}  {word}" + (f": {route['why']}" if route["why"] else "")
    for verdict in route["filters"]:
        yield from _filter(verdict, " " * 10)
    for fault in route["invalid"]:
        yield f"          data  {fault.get('at', '')}  {fault['detail']}"


def _filter(verdict: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield a line for a filter: whether it matched, and why. If several inner filters decided the
    result together, yield lines for these too.
    """
    word = "yes" if verdict["passes"] else "no "
    yield f"{indent}{word}  {verdict['decided_by']}  ({verdict['because']})"
    if all(inner["decided_by"] != verdict["decided_by"] for inner in verdict["inner"]):
        for inner in verdict["inner"]:
            yield from _filter(inner, f"{indent}     ")


def _key(holder: Mapping[str, Any]) -> str:
    if holder.get("key_base64"):
        return f"base64 {holder['key_base64']}"
    return "none" if holder["key"] is None else repr(holder["key"])


def _hop(hop: Mapping[str, Any], indent: str) -> Iterator[str]:
    partition = (
        f"  partition {hop['partition']} of {hop['partitions']}"
        if hop["partition"] is not None
        else ""
    )
    yield f"{indent}to      {hop['broker']}/{hop['topic']}  by {hop['by']}{partition}"
    for each in hop["subscriptions"]:
        yield from _subscription(each, indent + "  ")
    if hop["untold"]:
        yield f"{indent}        the bindings of the exchange decide for {', '.join(hop['untold'])}"
    if not hop["subscriptions"] and not hop["untold"]:
        yield f"{indent}        no subscription reads this topic"


def _subscription(each: Mapping[str, Any], indent: str) -> Iterator[str]:
    state = f"  [{state_word(each)}]" if each["state"] not in {None, "running"} else ""
    word = "gets it" if each["wants"] else "does not"
    yield f"{indent}      {each['id']}  {word}  {each['sink']}{state}"
    for verdict in each["filters"]:
        yield from _filter(verdict, f"{indent}          ")
    if each["fault"]:
        yield f"{indent}          {each['fault']}"
    if each["wants"] and each["lane"]:
        yield f"{indent}          lane  {each['lane']}"
    if (request := each["request"]) is not None:
        yield f"{indent}          {request['method']} {request['url']}"
        yield from (f"{indent}          {name}: {value}" for name, value in request["headers"])
        yield from (f"{indent}          {line}" for line in request["body"].splitlines())
    if each["onward"] is not None:
        yield from _hop(each["onward"], indent + "    ")


def show_verdict(text: str) -> None:
    """Print one record of ``tail --explain``. Below the record, print for each filter whether it
    matched, and why.
    """
    from app.event import json_text

    found = json_text.decode_lossless(text.encode())
    event = found["event"] or {"type": "(no event)", "id": "-", "source": "-"}
    place = f"{found['topic']}/{found['partition']}@{found['position']}"
    name = " ".join(str(event[part]) for part in ("type", "id", "source"))
    printing.text_line(printing.escape_line(f"{place}  {found['verdict']}  {name}"))
    for verdict in found["filters"]:
        for line in _filter(verdict, "    "):
            printing.text_line(line)
    if found["fault"]:
        printing.text_line(f"    {found['fault']}")
    if found["verdict"] == "wanted":
        printing.text_line(f"    lane  {found['lane']}")

"""``skybridge find`` shows what happened to an event, from its arrival to each subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import exits, printing, values
from app.cli.admin_client import AdminClient
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    View = Mapping[str, Any]


@verb(
    "find",
    "skybridge find A-1001",
    "skybridge find A-1001 --source /orders/eu --since 1h",
    "skybridge find A-1001 --json | jq '.events[].subscriptions[] | {subscription, fate}'",
)
def find(
    event: Annotated[str, typer.Argument(metavar="ID", help="Find the event with this id.")],
    source: Annotated[str, option("Find only events of this source; by default all sources.")] = "",
    since: Annotated[
        str,
        option(
            "Search from this time on: a duration such as 1h, or RFC 3339; by default the whole "
            "embedded log, and one hour of Kafka.",
            callback=values.moment,
        ),
    ] = "",
    *,
    service: AdminClient,
) -> None:
    """Find an event and show what happened to it.

    The output has the event's arrival, producer and route, and its position in each topic. It also
    shows the result at each subscription, such as delivered. A result marked with * is not
    recorded, but computed from the filters and the position of the subscription. Exits with 1 if
    nothing was found; the last lines name the searched ranges.
    """
    query = {"id": event, "source": source, "since": since}
    found = service.get("/v1/events", query)
    service.show(found, _print_found)
    if not found["events"]:
        raise typer.Exit(exits.FAILED)


def _print_found(found: View) -> None:
    for event in found["events"]:
        for line in _event(event):
            printing.text_line(line)
    if not found["events"]:
        printing.text_line("not found")
    for each in found["looked"]:
        if not each["complete"] or not found["events"]:
            printing.text_line(_search_line(each))


def _event(event: View) -> Iterator[str]:
    yield f"event {_clean(event['id'])} of {_clean(event['source'])}  {_clean(event['type'])}"
    yield f"  {_at(event['received_ms'])}  came{_sender(event)}"
    if event["route"] is not None:
        yield f"  {_NO_TIME}  route {event['route']['name']}: {_clean(event['route']['why'])}"
    for each in event["places"]:
        by = f"  by {each['by']}" if each["by"] else ""
        by += {True: "  waits in the spool", False: "  left the spool"}.get(each["waits"], "")
        where = f"{each['broker']}/{each['topic']}/{each['partition']} @ {each['position']}"
        yield f"  {_at(each['time_ms'])}  {where}{by}"
    for each in event["subscriptions"]:
        yield from _subscription(each)


def _sender(event: View) -> str:
    """Return the producer or intake of the event as part of a sentence, or "" if none is known."""
    producer, intake = event["producer"], event["intake"]
    if not producer and not intake:
        return ""
    text = f" from {_clean(producer)}" if producer else f" through intake {_clean(intake)}"
    return text + (" (claimed by the record)" if event["producer_claimed"] else "")


def _subscription(each: View) -> Iterator[str]:
    fate = each["fate"] + ("*" if each["computed"] else "")
    yield f"  {each['subscription']}: {fate}  {_clean(each['detail'])}"
    for attempt in each["attempts"]:
        yield from _attempt(attempt)
    if each["behind"] is not None:
        yield f"    after event {_clean(each['behind']['id'])} of {_clean(each['behind']['source'])}"
    if each["next_attempt_ms"] is not None:
        yield f"    {_at(each['next_attempt_ms'])}  next attempt"
    if each["consumer"]:
        yield f"    consumer {_clean(each['consumer'])}"
    if each["dead_letter"] is not None:
        yield f"    skybridge dead-letters show {each['dead_letter']}"


def _attempt(attempt: View) -> Iterator[str]:
    status = attempt["status"] or ""
    detail = f"  {_clean(attempt['detail'])}" if attempt["detail"] else ""
    yield (
        f"    {_at(attempt['started_ms'])}  attempt {attempt['number']}: {attempt['outcome']}"
        f" {status} in {attempt['duration_ms']:.0f} ms{detail}"
    )
    for mark, wire in ((">", attempt["request"]), ("<", attempt["answer"])):
        if wire is not None:
            yield f"      {mark} {_clean(wire['line'])}"
            for header in wire["headers"]:
                yield f"      {mark} {_clean(header['name'])}: {_clean(header['value'] or '…')}"
            if wire["body"]:
                yield f"      {mark} {_clean(wire['body'])}"
            if wire["withheld"]:
                yield f"      {mark} values and body are withheld: the token lacks the scope data"
    if attempt["kept_until_ms"] is not None:
        yield f"      headers and bodies are kept until {_at(attempt['kept_until_ms'])}"


def _search_line(each: View) -> str:
    begin = "its beginning" if each["from"] is None else _at(each["from"])
    text = f"looked in {each['where']} from {begin}"
    return text + ("" if each["complete"] else f", not in all of it: {_clean(each['detail'])}")


_NO_TIME = " " * len("2026-01-01T00:00:00Z")
_clean = printing.escape_line


def _at(milliseconds: int | None) -> str:
    return _NO_TIME if milliseconds is None else printing.moment(milliseconds)

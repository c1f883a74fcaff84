"""``skybridge send``: make and post one event, or post a file of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, options, printing
from app.cli.options import Attributes, Data, EventType, Source, Subject
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.bindings.record import Decoded
    from app.cli.client import EventsClient, Fate

PROGRESS_FROM = 20  # events; fewer are there before a bar is drawn


class Mode(StrEnum):
    binary = "binary"
    structured = "structured"
    batch = "batch"


class Format(StrEnum):
    json = "json"
    protobuf = "protobuf"
    avro = "avro"


@verb(
    "send",
    'skybridge send --type com.example.hello --data \'{"hello": "world"}\'',
    "skybridge send -t com.example.order.created -k order-7 -a partitionkey=order-7",
    "skybridge send -t com.example.load -n 10000 --mode batch",
    "skybridge send events.jsonl --mode structured",
    "skybridge send events.jsonl --mode batch --format protobuf",
)
def run(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Events to post: a JSON event, a JSON batch, or JSON lines; - is stdin."
        ),
    ] = None,
    url: Annotated[
        str, option("The events listener.", envvar="SKYBRIDGE_EVENTS_URL")
    ] = "http://127.0.0.1:8080/events",
    credential: options.Credential = "",
    route: Annotated[str, option("Post to this route by name.")] = "",
    type_: EventType = "",
    source: Source = "/skybridge/send",
    id_: Annotated[str, option("Its id; a new UUID by default.")] = "",
    subject: Subject = "",
    time: Annotated[str, option("Its time (RFC 3339); now by default.")] = "",
    attribute: Attributes = None,
    data: Data = "",
    content_type: Annotated[
        str, option("Content type of the data; JSON is recognised, everything else is text/plain.")
    ] = "",
    count: Annotated[int, option("Make so many.", "-n", min=1)] = 1,
    key: Annotated[str, option("The record key (order is kept per key).", "-k")] = "",
    mode: Annotated[Mode, option("Content mode on the wire.", "-m")] = Mode.binary,
    format_: Annotated[
        Format | None, option("Format of documents, in mode structured or batch.", "-f")
    ] = None,
    batch_size: Annotated[int, option("Events of one batch request.", min=1)] = 100,
    retries: Annotated[int, option("Retries after a 503; Retry-After is honoured.", min=0)] = 5,
    as_json: Annotated[bool, option("Print one JSON object per event.", "--json")] = False,
) -> None:
    """Create and post one event, or post a file of events.

    Events go one request after another, so their order is kept. The receipt names the position of each.
    """
    from app.cli import event_input

    if (file is None) == (not type_):
        printing.fail(
            "send needs either a FILE of events or --type.",
            cure='skybridge send --type com.example.hello --data \'{"hello": "world"}\'',
            code=exits.SETUP,
        )
    if format_ is not None and mode is Mode.binary:
        printing.fail(
            f"--format {format_} needs documents, but the mode is binary.",
            cure=f"Add --mode structured{'' if format_ is Format.avro else ' or --mode batch'}.",
            code=exits.SETUP,
        )
    options.demand_address("--url", url, "http://127.0.0.1:8080/events")
    if file is not None:
        events = _events(file)
    else:
        recipe = event_input.Recipe(
            type_, source, id_, subject, time or options.now(), content_type,
            options.attributes(attribute or []), options.data(data),
        )  # fmt: skip
        events = event_input.make(recipe, count)
    options.demanded_value("--key", key)
    options.demanded_value("--content-type", content_type)
    _post(events, url=url if not route else f"{url}/{route}", key=key, credential=credential, mode=mode, format_=format_,
          batch_size=batch_size, retries=retries, as_json=as_json)  # fmt: skip


def _post(
    events: Sequence[Decoded],
    *,
    url: str,
    key: str,
    credential: str,
    mode: Mode,
    format_: Format | None,
    batch_size: int,
    retries: int,
    as_json: bool,
) -> None:
    import asyncio

    from app.cli.client import EventsClient
    from app.errors import SenderError
    from app.libraries.httpx_client import httpx

    shows_each = as_json or len(events) < PROGRESS_FROM
    show = _show_json if as_json else _show if shows_each else _show_refused

    async def post_all() -> tuple[int, int]:
        client = EventsClient(
            url,
            key=key or None,
            headers=options.authorization(credential),
            format=format_.value if format_ else "as_received",
            retries=retries,
            on_wait=_show_wait,
        )
        try:
            return await _each_request(client, events, mode, batch_size, show, bar=not shows_each)
        finally:
            await client.close()

    try:
        accepted, refused = asyncio.run(post_all())
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        cure = "Start the service with `skybridge serve`, or name its events listener with --url."
        printing.nobody(url, fault, cure)
    except (
        SenderError
    ) as fault:  # no document of this format can hold them, or its library is missing
        printing.fail(f"{fault}.")
    if not as_json and not shows_each:
        printing.err().print(f"{accepted} accepted, {refused} refused")
    if refused:
        raise typer.Exit(exits.FAILED)


async def _each_request(
    client: EventsClient,
    events: Sequence[Decoded],
    mode: Mode,
    batch_size: int,
    show: Callable[[Fate], None],
    *,
    bar: bool,
) -> tuple[int, int]:
    """How many were accepted and how many refused."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    size = batch_size if mode is Mode.batch else 1
    columns = ("sending", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    accepted = 0
    with Progress(*columns, console=printing.err(), disable=not bar) as progress:
        task = progress.add_task("", total=len(events))
        for first in range(0, len(events), size):
            fates = await client.send(events[first : first + size], mode.value)
            for fate in fates:
                show(fate)
            accepted += sum(fate.accepted for fate in fates)
            progress.advance(task, len(fates))
    return accepted, len(events) - accepted


def _show(fate: Fate) -> None:
    from rich.markup import escape

    event = fate.event.event
    name = escape(f"{event.type}  {event.id}")
    if not fate.accepted:
        _show_refused(fate)
        return
    places = ", ".join(escape(place(receipt)) for receipt in fate.receipts)
    printing.out().print(f"[green]accepted[/]  {name}  {places}")


def _show_refused(fate: Fate) -> None:
    from rich.markup import escape

    if fate.accepted:
        return
    event = fate.event.event
    problem = fate.problem or {}
    console = printing.err()
    console.print(
        f"[bold red]refused[/] {fate.status}  {escape(f'{event.type}  {event.id}')}  "
        f"{escape(str(problem.get('title', '')))}"
    )
    for fault in problem.get("faults") or ():
        where = f"{fault['at']}: " if fault.get("at") else ""
        console.print(
            f"  {escape(where + fault['detail'])}  [dim]{escape(fault.get('rule', ''))}[/]"
        )


def _show_wait(why: str, seconds: float) -> None:
    """Silence would look like a hang."""
    from rich.markup import escape

    printing.err().print(f"[yellow]{escape(why)}; again in {seconds:g} s[/]")


def _show_json(fate: Fate) -> None:
    event = fate.event.event
    printing.json_line(
        {
            "id": event.id,
            "source": event.source,
            "type": event.type,
            "status": fate.status,
            "attempts": fate.attempts,
            "receipts": fate.receipts,
            "problem": fate.problem,
        }
    )


def place(receipt: Mapping[str, object]) -> str:
    """``log/events/3@42``: broker, topic, partition, position."""
    return "{broker}/{topic}/{partition}@{position}".format_map(receipt)


def _events(file: Path) -> Sequence[Decoded]:
    from app.cli import event_input

    try:
        events = event_input.read(options.content(file))
    except event_input.Unreadable as fault:
        printing.fail(f"{file}{fault}")
    if not events:
        printing.fail(f"{file} holds no event.")
    return events

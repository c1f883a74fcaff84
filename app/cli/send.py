"""``skybridge send`` makes and posts one event, or posts the events of a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, options, printing, values
from app.cli.options import Attributes, Data, EventType, Source, Subject
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.bindings.record import Decoded
    from app.cli.client import EventsClient, SendResult

URL = "http://127.0.0.1:8080/events"
PROGRESS_FROM = 20  # events; fewer are printed one by one
_OF_AN_EVENT = ("source", "id_", "subject", "time", "attribute", "data", "content_type", "count")


class SendMode(StrEnum):
    """The content modes of ``skybridge send``."""

    binary = "binary"
    structured = "structured"
    batch = "batch"


class DocumentFormat(StrEnum):
    """The formats of structured and batch documents."""

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
            help="Post the events of this file: a JSON event, a JSON batch, or JSON lines; - reads standard input."
        ),
    ] = None,
    url: Annotated[
        str,
        option(
            "Post to this events listener.",
            envvar="SKYBRIDGE_EVENTS_URL",
            callback=values.url(URL, is_base=True),
        ),
    ] = URL,
    credential: options.Credential = "",
    route: Annotated[
        str, option("Post to the route with this name; by default the filters choose the route.")
    ] = "",
    type_: EventType = "",
    source: Source = "/skybridge/send",
    id_: Annotated[str, option("Set the id of the event; by default a new UUID.")] = "",
    subject: Subject = "",
    time: Annotated[
        str,
        option(
            "Set the time of the event, as RFC 3339; by default now.", callback=values.event_time
        ),
    ] = "",
    attribute: Attributes = None,
    data: Data = "",
    content_type: Annotated[
        str,
        option(
            "Set the content type of the data; by default application/json for JSON, else text/plain."
        ),
    ] = "",
    count: Annotated[int, option("Create this many events.", "-n", min=1)] = 1,
    key: Annotated[
        str,
        option(
            "State the record key, by which order is kept; a route that does not read the key of the request ignores it. By default none.",
            "-k",
        ),
    ] = "",
    mode: Annotated[
        SendMode, option("Use this content mode for the requests.", "-m")
    ] = SendMode.binary,
    format_: Annotated[
        DocumentFormat | None,
        option("Use this format in mode structured or batch; by default json.", "-f"),
    ] = None,
    batch_size: Annotated[
        int, option("Put this many events into each request in mode batch.", min=1)
    ] = 100,
    retries: Annotated[
        int, option("Retry a request this many times after 429, 502, 503 or 504.", min=0)
    ] = 5,
    as_json: Annotated[bool, option("Print one JSON object per event.", "--json")] = False,
) -> None:
    """Create and post one event, or post a file of events.

    Requests are sent one after another, so the events keep their order. The command prints the
    position of each event.
    """
    from app.cli import event_input

    extensions = options.attributes(attribute or [])
    if (file is None) == (not type_):
        printing.fail(
            "send needs either a FILE of events, or --type.",
            cure='Run skybridge send --type com.example.hello --data \'{"hello": "world"}\'.',
            code=exits.SETUP,
        )
    if format_ is not None and mode is SendMode.binary:
        printing.fail(
            f"--format {format_} has no effect in mode binary, which sends no documents.",
            cure=f"Add --mode structured{'' if format_ is DocumentFormat.avro else ' or --mode batch'}.",
            code=exits.SETUP,
        )
    if mode is not SendMode.batch:
        options.refuse_ineffective("only --mode batch makes batches", "batch_size")
    if file is not None:
        options.refuse_ineffective("FILE has whole events", *_OF_AN_EVENT)
        events = _events(file)
    else:
        recipe = event_input.Recipe(
            type_, source, id_, subject, time or options.now(), content_type,
            extensions, options.data(data),
        )  # fmt: skip
        events = event_input.make(recipe, count)
    options.require_header_value("--key", key)
    options.require_header_value("--content-type", content_type)
    _post(events, url=url if not route else f"{url}/{route}", key=key, credential=credential, mode=mode, format_=format_,
          batch_size=batch_size, retries=retries, as_json=as_json)  # fmt: skip


def _post(
    events: Sequence[Decoded],
    *,
    url: str,
    key: str,
    credential: str,
    mode: SendMode,
    format_: DocumentFormat | None,
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
        printing.fail_unreachable(url, fault, cure)
    except SenderError as fault:  # the format cannot hold the events, or its library is missing
        printing.fail(f"{fault}.")
    if not as_json and not shows_each:
        printing.err().print(f"{accepted} accepted, {refused} refused")
    if refused:
        raise typer.Exit(exits.FAILED)


async def _each_request(
    client: EventsClient,
    events: Sequence[Decoded],
    mode: SendMode,
    batch_size: int,
    show: Callable[[SendResult], None],
    *,
    bar: bool,
) -> tuple[int, int]:
    """Send the events one request after another. Return how many were accepted and how many
    refused.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    size = batch_size if mode is SendMode.batch else 1
    columns = ("sending", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    accepted = 0
    with Progress(*columns, console=printing.err(), disable=not bar) as progress:
        task = progress.add_task("", total=len(events))
        for first in range(0, len(events), size):
            results = await client.send(events[first : first + size], mode.value)
            for result in results:
                show(result)
            accepted += sum(result.accepted for result in results)
            progress.advance(task, len(results))
    return accepted, len(events) - accepted


def _show(result: SendResult) -> None:
    from rich.markup import escape

    event = result.event.event
    name = escape(f"{event.type}  {event.id}")
    if not result.accepted:
        _show_refused(result)
        return
    places = ", ".join(escape(place(receipt)) for receipt in result.receipts)
    printing.out().print(f"[green]accepted[/]  {name}  {places}")


def _show_refused(result: SendResult) -> None:
    from rich.markup import escape

    from app.problems import cure_of

    if result.accepted:
        return
    event = result.event.event
    problem = result.problem or {}
    console = printing.err()
    console.print(
        f"[bold red]refused[/] {result.status}  {escape(f'{event.type}  {event.id}')}  "
        f"{escape(str(problem.get('title', '')))}"
    )
    for fault in problem.get("faults") or ():
        where = f"{fault['at']}: " if fault.get("at") else ""
        console.print(
            f"  {escape(where + fault['detail'])}  [dim]{escape(fault.get('rule', ''))}[/]"
        )
    if cure := cure_of(str(problem.get("type", ""))):
        console.print(f"  [green]cure[/] {escape(cure)}")


def _show_wait(why: str, seconds: float) -> None:
    """Print why the client waits and for how long, because silence would look like a hang."""
    from rich.markup import escape

    printing.err().print(f"[yellow]{escape(why)}; retry in {seconds:g} s[/]")


def _show_json(result: SendResult) -> None:
    event = result.event.event
    printing.json_line(
        {
            "id": event.id,
            "source": event.source,
            "type": event.type,
            "status": result.status,
            "attempts": result.attempts,
            "receipts": result.receipts,
            "problem": result.problem,
        }
    )


def place(receipt: Mapping[str, object]) -> str:
    """Return the position of a receipt as text: ``log/events/3@42`` for broker, topic, partition,
    position.
    """
    return "{broker}/{topic}/{partition}@{position}".format_map(receipt)


def _events(file: Path) -> Sequence[Decoded]:
    """Return the events of a file, or end the command if there are none or one is invalid."""
    from app.cli import event_input

    try:
        events = event_input.read(options.content(file))
    except event_input.UnreadableEvents as fault:
        printing.fail(f"{file}{fault}")
    if not events:
        printing.fail(f"{file} has no event.", cure="Write one JSON event per line into it.")
    return events

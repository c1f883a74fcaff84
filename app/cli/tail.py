"""``skybridge tail`` prints the messages of a topic as they arrive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import admin_client, exits, options, printing, values
from app.cli import explain as explaining
from app.cli.admin_client import BROKER, SERVER, Broker, Partition, Raw, Server, Token
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from app.config.model.config import Config

EXAMPLES = (
    "skybridge tail events                          # of the service on this machine",
    "skybridge tail orders --broker main --from earliest --no-follow",
    "skybridge tail orders --broker main --from latest-20",
    "skybridge tail orders --broker main --config skybridge.yaml   # no service is needed",
    "skybridge tail events --json | jq .event.type",
    "skybridge tail --subscription billing",
    "skybridge tail --subscription billing --explain   # why does it not get this event?",
)

_MOST_DATA = 2_000  # characters

Begin = Annotated[
    str,
    option(
        "Start at earliest, latest, latest-20 (about 20 before the end), a time such as 2026-01-01T00:00:00Z, "
        "a position in --partition, or positions 0@42,3@17 (partition@position).",
        "--from",
        callback=values.start,
    ),
]


@verb("tail", *EXAMPLES)
def run(
    topic: Annotated[str, typer.Argument(help="Read this topic.", show_default=False)] = "",
    subscription: Annotated[
        str,
        option(
            "Read the events that the subscription with this id gets, instead of the events of a topic."
        ),
    ] = "",
    broker: Broker = BROKER,
    begin: Begin = "latest",
    partition: Partition = None,
    follow: Annotated[
        bool,
        option(
            "Wait for new messages; --no-follow stops at the present end.", "--follow/--no-follow"
        ),
    ] = True,
    explain: Annotated[
        bool,
        option(
            "With --subscription, print every event, and for each filter whether it matches and why."
        ),
    ] = False,
    limit: Annotated[int, option("End after this many messages; 0: never.", min=0)] = 0,
    server: Server = SERVER,
    token: Token = "",
    config: Annotated[
        Path | None,
        option(
            "Read directly from the broker in this configuration file; by default read through a running service.",
            "-c",
        ),
    ] = None,
    raw: Raw = False,
    as_json: Annotated[bool, option("Print one JSON object per message.", "--json")] = False,
) -> None:
    """Print the messages of a topic as they arrive.

    The command changes no consumer group. By default it asks a running service, which owns the
    embedded log. With --config it reads the broker directly: Kafka always, an embedded log only
    while no service runs.
    """
    import asyncio

    display = printing.text_line if as_json else explaining.show_verdict if explain else _show
    query = {"follow": str(follow).lower()}
    if subscription:
        query |= {"start": begin, **({"explain": "true"} if explain else {})}
    else:
        query |= {"from": begin, "raw": str(raw).lower()}
    if partition is not None:
        query["partition"] = str(partition)
    _demand_one(topic, subscription, begin, alone=partition is None and config is None and not raw)
    if explain and not subscription:
        printing.fail(
            "--explain needs --subscription, whose filters it explains.",
            cure="Add --subscription ID.",
            code=exits.SETUP,
        )
    if subscription:
        options.refuse_ineffective("the subscription names its broker", "broker")
    if config is not None:
        options.refuse_ineffective("--config asks no service", "server", "token")
        messages = _from_broker(
            options.configuration(config), broker, topic, begin, partition, follow=follow, raw=raw
        )
    else:
        if subscription:
            path = admin_client.subscription_path(subscription, "/events")
        else:
            path = admin_client.topic_path(broker, topic, "/tail")
        messages = _from_service(f"{server}{path}", server, token, query)
    asyncio.run(_print(messages, display, limit))


async def _print(
    messages: AsyncGenerator[str, None], show: Callable[[str], None], limit: int
) -> None:
    import contextlib

    from app.runtime.signals import Signals, until_asked

    count = 0
    with Signals() as signals:
        async with (
            contextlib.aclosing(messages),
            contextlib.aclosing(until_asked(messages, signals)) as ours,
        ):
            async for message in ours:
                show(message)
                count += 1
                if count == limit:
                    return


async def _from_service(
    url: str, server: str, token: str, query: dict[str, str]
) -> AsyncGenerator[str, None]:
    """Yield the messages of the service's event stream as JSON."""
    from app.libraries.httpx_client import httpx

    headers = httpx.Headers(admin_client.authorization(token), encoding="utf-8")
    try:
        async with (
            httpx.AsyncClient(
                timeout=httpx.Timeout(40, read=None),
                trust_env=False,
                verify=options.needs_certificates(server),
            ) as client,
            client.stream("GET", url, params=query, headers=headers) as answer,
        ):
            if not answer.is_success:
                await answer.aread()
                admin_client.fail_with_answer(server, answer)
            async for name, data in _events(_lines(answer.aiter_bytes())):
                if name == "problem":
                    _ended(server, data)
                elif name == "gap":
                    printing.err().print(
                        f"gap: retention removed records before they were read: {data}",
                        markup=False,
                    )
                else:
                    yield data
    except (httpx.TransportError, httpx.InvalidURL) as fault:
        cure = (
            "Start the service, name its admin listener with --server, or read the "
            "broker directly with --config FILE."
        )
        printing.fail_unreachable(server, fault, cure)


async def _lines(parts: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """Yield the lines of a stream of server-sent events. Data may contain U+0085 and U+2028, which
    would end a line for httpx but do not end one in server-sent events.
    """
    rest = b""
    async for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode()


async def _events(lines: AsyncIterator[str]) -> AsyncGenerator[tuple[str, str], None]:
    """Yield the name and data of each server-sent event that has data."""
    name = ""
    async for line in lines:
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, line[6:]
        elif not line:
            name = ""


def _ended(server: str, data: str) -> None:
    """End the command with the problem that ended the stream."""
    import msgspec

    admin_client.fail_with_problem(server, msgspec.json.decode(data))


async def _from_broker(
    config: Config,
    broker: str,
    topic: str,
    begin: str,
    partition: int | None,
    *,
    follow: bool,
    raw: bool,
) -> AsyncGenerator[str, None]:
    """Yield the messages of a topic as JSON, read from the broker directly."""
    import asyncio

    from app.api.http import start_points
    from app.api.http.problems import RequestRefused
    from app.api.topics.follow import TopicTail
    from app.api.topics.messages import one_line, to_json
    from app.api.topics.records import demand_leaders, demand_readable
    from app.api.topics.routes import ends_of
    from app.features.brokers.logs import open_logs
    from app.model.message import Message

    if broker not in config.brokers:
        known = ", ".join(config.brokers)
        printing.fail(
            f"--broker {broker} is not a broker of the configuration.",
            cure=f"Use one of: {known}.",
            code=exits.SETUP,
        )
    kind = config.brokers[broker].kind
    log = open_logs(config)[broker]
    await log.start()
    stopped = asyncio.Event()
    if not follow:
        stopped.set()
    try:
        ends = demand_leaders(
            await ends_of(demand_readable(log, topic), broker, topic, partition), topic
        )
        start = await start_points.resolve(log, topic, ends, begin)
        async for item in TopicTail(log, topic, start, stopped, partition).items():
            if isinstance(item, Message):
                yield one_line(to_json(item, kind, raw=raw)).decode()
    except RequestRefused as refusal:
        printing.fail(f"{refusal}.")
    finally:
        await log.stop()


def _demand_one(topic: str, subscription: str, begin: str, *, alone: bool) -> None:
    """End the command unless exactly one of topic and subscription is set. With a subscription, all
    partitions are read, beginning with the earliest or latest event.
    """
    if bool(topic) == bool(subscription):
        printing.fail(
            "tail needs either a TOPIC, or --subscription.",
            cure="Run skybridge tail TOPIC.",
            code=exits.SETUP,
        )
    if subscription and (begin not in {"earliest", "latest"} or not alone):
        printing.fail(
            "--subscription allows --from earliest or latest alone, and no --partition, --raw or --config.",
            cure="Run skybridge tail TOPIC, which reads a topic from any position.",
            code=exits.SETUP,
        )


def _show(text: str) -> None:
    from app.event import json_text

    message = json_text.decode_lossless(text.encode())
    if "position" in message:
        show(message)
    else:  # an event of a subscription, without a position
        printing.out().print(summary({"event": message}))
        show_data({"event": message})


def show(message: dict[str, Any]) -> None:
    """Print position, key and the event in a few words. Below them print its data, or the record if it
    is present.
    """
    from rich.markup import escape

    place = f"{message['topic']}/{message['partition']}@{message['position']}"
    key = printing.escape_line(str(message.get("key") or message.get("key_base64")))
    console = printing.out()
    console.print(f"[dim]{escape(place)}[/] key={escape(key)} {summary(message)}")
    record = message.get("record") or {}
    for line in _record(record):
        console.print(f"  {printing.escape_lines(line)}", markup=False)
    if not record:
        show_data(message)


def show_data(message: dict[str, Any]) -> None:
    """Print the data of an event below its summary, clipped."""
    text = _data(message.get("event") or {})
    if message.get("withheld") == "data":
        text = "(the data is withheld: the token lacks the scope data)"
    if len(text) > _MOST_DATA:
        text = f"{text[:_MOST_DATA]}… ({len(text):,} characters; --json shows all)"
    if text:
        printing.out().print(f"  {printing.escape_lines(text)}", markup=False)


def _data(event: dict[str, Any]) -> str:
    """Return the data as text: JSON on one line, other text as it is, bytes as base64."""
    from app.event import json_text

    if (encoded := event.get("data_base64")) is not None:
        return f"base64 {encoded}"
    data = event.get("data")
    if data is None or isinstance(data, str):
        return data or ""
    return json_text.encode_value(data).decode("utf-8", "replace")


def _record(record: dict[str, Any]) -> list[str]:
    lines = [f"{header['name']}: {_value(header)}" for header in record.get("headers", ())]
    return [*lines, f"{record.get('body', record.get('body_base64'))}"] if record else []


def _value(header: dict[str, Any]) -> Any:
    value = header.get("value", header.get("value_base64"))
    return header.get("typed") if value is None else value


def summary(message: dict[str, Any]) -> str:
    """Return a summary of the event. For a document that was not decoded, return its content type."""
    import base64

    from rich.markup import escape

    event = message.get("event")
    if event is None and message.get("fault"):
        return f"[red]{escape(message['fault'])}[/]"
    if event is None:
        size = len(base64.b64decode(message["body_base64"]))
        known = " ".join(message["attributes"].values())
        return (
            f"[yellow]{escape(message['content_type'])}[/] {size} bytes, not read {escape(known)}"
        )
    kind, name = event.get("type", event.get("eventType")), event.get("id", event.get("eventID"))
    return f"[bold]{escape(kind)}[/] {escape(name)} {escape(event['source'])}"

"""``skybridge tail``: the messages of a topic as they come."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import address, exits, printing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from app.config.model import Config

EXAMPLES = (
    "skybridge tail events                          # of the service on this machine",
    "skybridge tail orders --broker main --from earliest --no-follow",
    "skybridge tail orders --broker main --config skybridge.yaml   # no service is needed",
    "skybridge tail events --json | jq .event.type",
)


class Begin(StrEnum):
    earliest = "earliest"
    latest = "latest"


def run(
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    broker: Annotated[
        str, typer.Option("--broker", "-b", help="Its broker's name in the configuration.")
    ] = "log",
    begin: Annotated[Begin, typer.Option("--from", help="Where to begin.")] = Begin.latest,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Go on, or end at the end.")
    ] = True,
    limit: Annotated[int, typer.Option(min=0, help="End after so many; 0 never.")] = 0,
    server: Annotated[
        str, typer.Option(envvar="SKYBRIDGE_SERVER", help="The admin listener of a service.")
    ] = "http://127.0.0.1:8081",
    token: Annotated[
        str, typer.Option(envvar="SKYBRIDGE_ADMIN_TOKEN", help="Its token.", show_default=False)
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Read the broker itself, as this file describes it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a message.")] = False,
) -> None:
    """Print the messages of a topic as they come. No consumer group is touched.

    An embedded log belongs to the service that runs on it, so by default the service is asked. With
    --config the broker is read directly: Kafka always, an embedded log while no service runs.
    """
    import asyncio

    show = printing.text_line if as_json else _show
    if config is not None:
        messages = _from_broker(_loaded(config), broker, topic, begin, follow=follow)
    else:
        address.demand("--server", server, "http://127.0.0.1:8081")
        messages = _from_service(server, token, f"{broker}/{topic}", begin, follow=follow)
    asyncio.run(_print(messages, show, limit))


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
    server: str, token: str, place: str, begin: Begin, *, follow: bool
) -> AsyncGenerator[str, None]:
    import httpx
    import msgspec

    headers = {"authorization": f"Bearer {token}"} if token else {}
    query = {"from": begin.value, "follow": str(follow).lower()}
    try:
        async with (
            httpx.AsyncClient(timeout=httpx.Timeout(10, read=None), trust_env=False) as client,
            client.stream(
                "GET", f"{server}/v1/topics/{place}/tail", params=query, headers=headers
            ) as answer,
        ):
            if not answer.is_success:
                _refused(server, msgspec.json.decode(await answer.aread()))
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield line[6:]
    except (httpx.TransportError, httpx.InvalidURL) as fault:
        cure = (
            "Start the service, name its admin listener with --server, or read the broker itself "
            "with --config FILE."
        )
        address.nobody(server, fault, cure)


def _refused(server: str, problem: dict[str, Any]) -> None:
    cures = {
        401: "Give its server.admin.token with --token or SKYBRIDGE_ADMIN_TOKEN.",
        404: "Name the topic and --broker as the configuration has them; "
        f"{server}/v1/topics lists all topics.",
    }
    printing.fail(
        f"{server} refuses: {problem.get('detail') or problem.get('title')}",
        cure=cures.get(problem.get("status", 0), ""),
    )


async def _from_broker(
    config: Config, broker: str, topic: str, begin: Begin, *, follow: bool
) -> AsyncGenerator[str, None]:
    import asyncio

    from app.api.follow import follow as follow_topic
    from app.api.follow import partitions_of
    from app.api.messages import to_json
    from app.runtime.logs import open_logs

    if broker not in config.brokers:
        known = ", ".join(config.brokers)
        printing.fail(
            f"there is no broker {broker}.",
            cure=f"--broker takes one of: {known}",
            code=exits.SETUP,
        )
    log = open_logs(config)[broker]
    await log.start()
    try:
        if not await partitions_of(log, topic):
            printing.fail(f"broker {broker} has no topic {topic}.")
        stopped = asyncio.Event()
        if not follow:
            stopped.set()
        async for message in follow_topic(log, topic, begin.value, stopped):
            if message is not None:
                yield to_json(message).decode()
    finally:
        await log.stop()


def _loaded(file: Path) -> Config:
    import os

    from app.config.load import load

    return load(file, os.environ).config


def _show(text: str) -> None:
    import msgspec
    from rich.markup import escape

    message = msgspec.json.decode(text)
    place = f"{message['topic']}/{message['partition']}@{message['position']}"
    key = message.get("key") or message.get("key_base64")
    console = printing.out()
    event = message.get("event")
    if event is None:
        console.print(
            f"[dim]{escape(place)}[/] key={escape(str(key))} [red]{escape(message['fault'])}[/]"
        )
        return
    console.print(
        f"[dim]{escape(place)}[/] key={escape(str(key))} [bold]{escape(event['type'])}[/] "
        f"{escape(event['id'])} {escape(event['source'])}"
    )

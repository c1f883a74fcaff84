"""``skybridge topics`` lists topics of any broker, reads messages and positions, and publishes to
topics.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import admin_client, options, printing, tail, values, verbs
from app.cli.admin_client import BROKER, AdminClient, Broker, Partition, Raw
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.cli.printing import Column

app = verbs.group(
    "topics",
    "Inspect topics of every broker, or publish to them.\n\n"
    "These commands ask a running service for Metadata (list, show), Fetch (peek, tail), Offset (offsets) "
    "and Produce (publish) of the Kafka protocol guide. They change no consumer group and create no topic.",
)

TopicName = Annotated[str, typer.Argument(help="Use the topic with this name on the broker.")]


class PublishMode(StrEnum):
    """The content modes of a published record."""

    binary = "binary"
    structured = "structured"


@app.verb("list", "skybridge topics list", "skybridge topics list --broker main --json")
def list_(
    broker: Annotated[str, option("List only topics of this broker; by default all.", "-b")] = "",
    *,
    service: AdminClient,
) -> None:
    """List the topics of all brokers.

    Brokers that do not answer are named on standard error.
    """
    service.show_all(service.get("/v1/topics", {"broker": broker}), _TOPICS)
    if not broker:
        _miss(service.get("/status")["brokers"])


_TOPICS: Sequence[Column] = (
    "broker",
    ("topic", "name"),
    ("partitions", lambda each: len(each["partitions"])),
    ("without a leader", lambda each: sum(it["leader"] is None for it in each["partitions"])),
)


def _miss(brokers: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the brokers whose topics are missing in the list, because they do not answer."""
    for name, health in brokers.items():
        if not health["healthy"]:
            printing.err().print(f"broker {name} does not answer: {health['cause']}", markup=False)


@app.verb("show", "skybridge topics show events", "skybridge topics show orders -b main --json")
def show(topic: TopicName, broker: Broker = BROKER, *, service: AdminClient) -> None:
    """Show the partitions of a topic.

    Each row has the leader, the replicas, the in-sync replicas, and the earliest and latest
    position.
    """
    columns = ("number", "leader", "replicas", "isr", "earliest", "latest")
    found = service.get(admin_client.topic_path(broker, topic))
    service.show(found, lambda found: printing.print_rows(columns, found["partitions"]))


@app.verb(
    "peek",
    "skybridge topics peek events",
    "skybridge topics peek orders -b main --from latest-5",
    "skybridge topics peek orders -b main --from 2026-01-01T00:00:00Z --limit 50 --json",
    "skybridge topics peek orders -b main --partition 3 --from 42 --raw --json",
)
def peek(
    topic: TopicName,
    broker: Broker = BROKER,
    begin: tail.Begin = "earliest",
    partition: Partition = None,
    limit: Annotated[int, option("Print at most this many messages.", "-n", min=1)] = 10,
    raw: Raw = False,
    *,
    service: AdminClient,
) -> None:
    """Print some messages of a topic.

    The output has one partition after another. For each it also names the position of the next
    message.
    """
    query = {"from": begin, "partition": partition, "limit": limit, "raw": raw}
    page = service.get(admin_client.topic_path(broker, topic, "/records"), query)
    for message in page["messages"]:
        service.show(message, tail.show)
    if not page["complete"]:
        printing.err().print(f"more with --from '{page['next']}'", markup=False)


@app.verb(
    "offsets",
    "skybridge topics offsets events",
    "skybridge topics offsets orders -b main --time 2026-01-01T00:00:00Z",
    "skybridge topics offsets orders -b main --group some.other.group",
)
def offsets(
    topic: TopicName,
    broker: Broker = BROKER,
    time: Annotated[
        str,
        option(
            "Also show the position at this time: a duration such as 1h, or RFC 3339; by default no further position.",
            callback=values.moment,
        ),
    ] = "",
    group: Annotated[
        list[str] | None,
        option(
            "Show the positions of this group; may be repeated; by default the groups of all subscriptions.",
            "-g",
        ),
    ] = None,
    partition: Partition = None,
    *,
    service: AdminClient,
) -> None:
    """Show the positions of a topic and of its groups.

    The positions are earliest, latest and at a time; groups have their committed position and lag.
    """
    query = {"time": time, "group": group, "partition": partition}
    found = service.get(admin_client.topic_path(broker, topic, "/offsets"), query)
    columns = ("number", "earliest", "latest", *(("at_time",) if time else ()))

    def show(found: Mapping[str, Any]) -> None:
        printing.print_rows(columns, found["partitions"])
        if found["groups"]:
            of_groups = ("group", "subscription", "partition", "committed", "lag")
            printing.print_rows(of_groups, found["groups"])

    service.show(found, show)


@app.verb(
    "publish",
    'skybridge topics publish events --type com.example.hello --data \'{"hello": "world"}\'',
    "skybridge topics publish orders -b main -t com.example.fix -k order-7 --data @order.json",
)
def publish(
    topic: TopicName,
    type_: Annotated[str, option("Set the type of the event.", "-t")],
    broker: Broker = BROKER,
    source: Annotated[str, option("Set the source of the event.", "-s")] = "/skybridge/topics",
    id_: Annotated[str, option("Set the id of the event; by default a new UUID.")] = "",
    subject: Annotated[str, option("Set the subject of the event; by default none.")] = "",
    data: Annotated[
        str,
        option(
            "Set the data of the event; @FILE reads the data from a file; by default no data.", "-d"
        ),
    ] = "",
    key: Annotated[str, option("Set the record key; by default none.", "-k")] = "",
    mode: Annotated[
        PublishMode, option("Use this content mode for the record.", "-m")
    ] = PublishMode.binary,
    *,
    service: AdminClient,
) -> None:
    """Publish one event to an existing topic.

    The event is published to the topic without a route. The command prints the position of the
    event.
    """
    from app.cli import event_input

    recipe = event_input.Recipe(type_, source, id_, subject, data=options.data(data))
    message = event_input.request(recipe)
    key = options.require_header_value("--key", key)
    headers = {**dict(message.headers), **({"skybridge-key": key} if key else {})}
    path, query = admin_client.topic_path(broker, topic, "/records"), {"content_mode": mode.value}
    receipt = service.post(path, query=query, content=message.body, headers=headers)
    service.show(receipt, _stored)


def _stored(receipt: Mapping[str, Any]) -> None:
    place = "{broker}/{topic}/{partition}@{position}".format_map(receipt)
    printing.out().print(f"stored  {place}", markup=False)


app.verb(
    "tail",
    *(each.replace("skybridge tail", "skybridge topics tail") for each in tail.EXAMPLES),
)(tail.run)

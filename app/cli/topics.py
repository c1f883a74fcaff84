"""``skybridge topics``: the four operations of the protocol guide, for every broker alike."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import admin_client, options, printing, tail, verbs
from app.cli.admin_client import BROKER, Broker, Partition, Raw, Service
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.cli.printing import Column

app = verbs.group(
    "topics",
    "Topics of every broker: partitions, records, positions of groups.\n\n"
    "Metadata (list, show), Fetch (peek, tail), Offset (offsets) and Produce (publish) of the Kafka "
    "protocol guide, asked of a running service. It changes no consumer group and creates no topic.",
)

TopicName = Annotated[str, typer.Argument(help="The topic, by its name on the broker.")]


class Mode(StrEnum):
    binary = "binary"
    structured = "structured"


@app.verb("list", "skybridge topics list", "skybridge topics list --broker main --json")
def list_(
    broker: Annotated[str, option("Only this broker; all by default.", "-b")] = "",
    *,
    service: Service,
) -> None:
    """List the topics of every broker, and name the brokers that do not answer."""
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
    """Say whose topics are not in the list."""
    for name, health in brokers.items():
        if not health["healthy"]:
            printing.err().print(f"broker {name} does not answer: {health['cause']}", markup=False)


@app.verb("show", "skybridge topics show events", "skybridge topics show orders -b main --json")
def show(topic: TopicName, broker: Broker = BROKER, *, service: Service) -> None:
    """Show a topic's partitions: leader, replicas, in-sync replicas, both ends."""
    columns = ("number", "leader", "replicas", "isr", "earliest", "latest")
    found = service.get(admin_client.topic_path(broker, topic))
    service.show(found, lambda found: printing.listing(columns, found["partitions"]))


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
    limit: Annotated[int, option("Most messages.", "-n", min=1)] = 10,
    raw: Raw = False,
    *,
    service: Service,
) -> None:
    """Print some messages of a topic, partition after partition, and the position of the next ones."""
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
    time: Annotated[str, option("Also the position at this time: RFC 3339, or milliseconds.")] = "",
    group: Annotated[
        list[str] | None,
        option("Position and lag of this group; by default of the subscriptions' groups.", "-g"),
    ] = None,
    partition: Partition = None,
    *,
    service: Service,
) -> None:
    """Show positions: earliest, latest, at a time; and the positions of groups with their lag."""
    query = {"time": time, "group": group, "partition": partition}
    found = service.get(admin_client.topic_path(broker, topic, "/offsets"), query)
    columns = ("number", "earliest", "latest", *(("at_time",) if time else ()))

    def show(found: Mapping[str, Any]) -> None:
        printing.listing(columns, found["partitions"])
        if found["groups"]:
            of_groups = ("group", "subscription", "partition", "committed", "lag")
            printing.listing(of_groups, found["groups"])

    service.show(found, show)


@app.verb(
    "publish",
    'skybridge topics publish events --type com.example.hello --data \'{"hello": "world"}\'',
    "skybridge topics publish orders -b main -t com.example.fix -k order-7 --data @order.json",
)
def publish(
    topic: TopicName,
    type_: Annotated[str, option("The event's type.", "-t")],
    broker: Broker = BROKER,
    source: Annotated[str, option("Its source.", "-s")] = "/skybridge/topics",
    id_: Annotated[str, option("Id of the event; a new UUID by default.")] = "",
    subject: Annotated[str, option("Its subject.")] = "",
    data: Annotated[str, option("Data of the event; @FILE reads a file.", "-d")] = "",
    key: Annotated[str, option("The record key.", "-k")] = "",
    mode: Annotated[Mode, option("Content mode of the record.", "-m")] = Mode.binary,
    *,
    service: Service,
) -> None:
    """Publish one event to an existing topic, without routes; the receipt names its position."""
    from app.cli import event_input

    recipe = event_input.Recipe(type_, source, id_, subject, data=options.data(data))
    message = event_input.request(recipe)
    key = options.demanded_value("--key", key)
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

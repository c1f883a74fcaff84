"""The options of the Pulsar data source, which Spark passes as texts by case-insensitive names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition. An offset is the number that ``reading.offset_of`` returns."""

SCHEME: Final = "persistent://"
"""The prefix of a full topic name. A Kafka topic cannot have it, so the prefix shows which system a
record is from.
"""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Pulsar cluster and the topics that are read from it. Spark's workers read the files named
    here under the same path.

    Attributes:
        service_url: The address of the brokers.
        admin_url: The address of the admin API.
        topics: The topics, separated by commas. A topic without a tenant belongs to ``namespace``.
        broker: The kind of the broker; always ``pulsar``.
        name: The name of the broker in the configuration, which the rows contain.
        namespace: The tenant and namespace of topics without a tenant.
        startingoffsets: Where reading starts: ``earliest``, ``latest``, or JSON as ``{"orders":
            {"0": 4294967296}}``.
        endingoffsets: Where a batch ends, in the same form.
    """

    service_url: str
    admin_url: str
    topics: str
    broker: str = "pulsar"
    name: str = "pulsar"
    namespace: str = "public/default"
    token: str | None = None
    oauth2_issuer_url: str | None = None
    oauth2_credentials: str | None = None
    oauth2_audience: str = ""
    oauth2_scope: str = ""
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_verify_host: bool = True
    startingoffsets: str = "earliest"
    endingoffsets: str = "latest"

    def __repr__(self) -> str:
        return f"Options(name={self.name!r}, service_url={self.service_url!r})"  # without secrets

    def full_topics(self) -> list[str]:
        """Return the topics as ``persistent://tenant/namespace/topic``, without repeats."""
        named = filter(None, map(str.strip, self.topics.split(",")))
        return list(dict.fromkeys(full_topic(each, self.namespace) for each in named))


def full_topic(name: str, namespace: str) -> str:
    bare = name.removeprefix(SCHEME)
    return SCHEME + (bare if bare.count("/") == 2 else f"{namespace}/{bare}")  # noqa: PLR2004


def parse_options(given: Mapping[str, str]) -> Options:
    """Convert the options that Spark passes.

    Raises:
        ValueError: An option is unknown or invalid; the message names the option and the cure.
    """
    options: dict[str, Any] = {name.lower(): value for name, value in given.items()}
    options.pop("path", None)  # Spark adds this one
    if (broker := options.get("broker")) != "pulsar":
        raise ValueError(
            f"option broker is {broker!r}: this source reads pulsar; Kafka, and an embedded log by its"
            " listener, are read by Spark's own format kafka, RabbitMQ is mirrored into one of these first"
        )
    try:
        return msgspec.convert(options, Options, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(Options.__struct_fields__)
        raise ValueError(f"{error}; the options of this source: {known}") from None


def as_spark_options(options: Options, topics: Sequence[str], **others: str) -> dict[str, str]:
    """Return the options as Spark passes them, with these topics and other options added."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in msgspec.structs.asdict(options).items()
        if value is not None
    }
    return (
        texts | {"topics": ",".join(topics)} | {name.lower(): text for name, text in others.items()}
    )


def parse_offsets(text: str, topics: list[str], namespace: str) -> Offsets:
    """Parse the JSON text of an offsets option.

    Raises:
        ValueError: The text is not such JSON, or names topics that are not read.
    """
    try:
        found = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"offsets are earliest, latest, or JSON by topic and partition: {error}"
        ) from None
    named = {full_topic(topic, namespace): each for topic, each in found.items()}
    if foreign := sorted(named.keys() - set(topics)):
        raise ValueError(f"offsets name topics that are not read: {', '.join(foreign)}")
    return named


def as_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return offsets as Spark stores them in a checkpoint, where partition numbers are texts."""
    return {topic: {str(n): at for n, at in each.items()} for topic, each in offsets.items()}

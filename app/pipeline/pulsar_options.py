"""What the data source is told, as Spark has it: texts by names that know no case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition, as ``pipeline.source`` has them; numbers of ``reading.offset_of``."""

SCHEME: Final = "persistent://"
"""Before the full name of a topic. No topic of Kafka can be called so: it tells whose a record is."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cluster, and what is read of it. Files are read where Spark's workers run, under the same path.

    ``name``      of the broker: it stands in the rows.
    ``topics``    separated by commas; those without a tenant are of ``namespace``.
    ``startingoffsets``, ``endingoffsets``  ``earliest``, ``latest``, or JSON as ``{"orders": {"0": 4294967296}}``.
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
        return f"Options(name={self.name!r}, service_url={self.service_url!r})"  # and no secret

    def full_topics(self) -> list[str]:
        """``persistent://tenant/namespace/topic``, each once."""
        named = filter(None, map(str.strip, self.topics.split(",")))
        return list(dict.fromkeys(full_topic(each, self.namespace) for each in named))


def full_topic(name: str, namespace: str) -> str:
    bare = name.removeprefix(SCHEME)
    return SCHEME + (bare if bare.count("/") == 2 else f"{namespace}/{bare}")  # noqa: PLR2004


def options_of(given: Mapping[str, str]) -> Options:
    """Raises ValueError that names the option and the cure."""
    told: dict[str, Any] = {name.lower(): value for name, value in given.items()}
    told.pop("path", None)  # Spark's own
    if (broker := told.get("broker")) != "pulsar":
        raise ValueError(
            f"option broker is {broker!r}: this source reads pulsar; Kafka, and an embedded log by its"
            " listener, are read by Spark's own format kafka, RabbitMQ is mirrored into one of these first"
        )
    try:
        return msgspec.convert(told, Options, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(Options.__struct_fields__)
        raise ValueError(f"{error}; the options of this source: {known}") from None


def given(options: Options, topics: Sequence[str], **others: str) -> dict[str, str]:
    """The other way, for Spark: these topics, and what else is told."""
    told = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in msgspec.structs.asdict(options).items()
        if value is not None
    }
    return (
        told | {"topics": ",".join(topics)} | {name.lower(): text for name, text in others.items()}
    )


def offsets_of(text: str, topics: list[str], namespace: str) -> Offsets:
    """Of JSON. Raises ValueError for what is none, and for topics that are not read."""
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
    """As Spark keeps it in a checkpoint: names are texts."""
    return {topic: {str(n): at for n, at in each.items()} for topic, each in offsets.items()}

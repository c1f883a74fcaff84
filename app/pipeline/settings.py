"""What the verbs of the pipeline are told, as plain values. ``runtime.pipeline`` and ``runtime.reroute`` make them
from the configuration; a program that submits a job to a cluster may make them itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from app.pipeline.pulsar_options import Options

if TYPE_CHECKING:
    from app.model.route import Route  # and Spark's workers, which import this, do without

CatalogKind = Literal["jdbc", "rest", "hive", "glue", "hadoop"]

NOTHING: Mapping[str, str] = MappingProxyType({})


def folder_of(uri: str) -> Path | None:
    """The folder of this machine; None for a URI of anywhere else."""
    where = urlsplit(uri)
    return Path(unquote(where.path)) if where.scheme in {"", "file"} else None


class Catalog(msgspec.Struct, frozen=True):
    """Where Iceberg keeps which files make a table.

    ``kind``        what it is; ``jdbc`` on a SQLite file where nothing is said.
    ``uri``         of the catalog: ``jdbc:sqlite:/data/lake/catalog.db``, ``https://...``; "" for ``hadoop``, ``glue``.
    ``warehouse``   where the files of new tables go, as a URI: ``file:///data/lake``, ``s3://...``.
    ``properties``  further ones, as Iceberg names them (``io-impl``, ``s3.endpoint``, ``credential``).
    """

    kind: CatalogKind
    uri: str
    warehouse: str
    properties: Mapping[str, str] = NOTHING


class Lake(msgspec.Struct, frozen=True):
    """The tables. In Spark and for every other reader they are ``lake.<namespace>.<table>``.

    ``buckets``  of ``events`` by (source, id), fixed when the table is made: a few identities are looked for in theirs only.
    """

    catalog: Catalog
    namespace: str = "skybridge"
    buckets: int = 16

    def table(self, name: str) -> str:
        return f"lake.{self.namespace}.{name}"


class KafkaPlace(msgspec.Struct, frozen=True):
    """A Kafka, or the Kafka listener of an embedded log.

    ``broker``   its name in the configuration: it stands in the rows.
    ``options``  security, as Kafka's Java clients name it, without the ``kafka.`` of Spark
                 (``security.protocol``, ``sasl.jaas.config``, ``ssl.truststore.location``).
    """

    broker: str
    bootstrap_servers: str
    options: Mapping[str, str] = NOTHING


class PulsarPlace(msgspec.Struct, frozen=True):
    """A Pulsar, as its data source is told of it. Topics are their full names there: ``persistent://...``."""

    cluster: Options

    @property
    def broker(self) -> str:
        return self.cluster.name


class Engine(msgspec.Struct, frozen=True):
    """How Spark runs.

    ``master``  ``local[*]``, ``spark://host:7077``; "" leaves it to ``spark-submit``.
    ``memory``  of the driver's JVM, which in local mode does all the work: ``2g``.
    ``conf``    further settings, as Spark names them; they win over ours.
    """

    master: str = "local[*]"
    memory: str = "2g"
    conf: Mapping[str, str] = NOTHING

    @property
    def has_jars(self) -> bool:
        """Whether it names the jars: ours are not fetched."""
        return not {"spark.jars", "spark.jars.packages"}.isdisjoint(self.conf)


class Reroute(msgspec.Struct, frozen=True):
    """A job of ``reroute``.

    ``source``   where the ``topics`` are.
    ``routes``   all of the configuration, in order: the first that matches wins.
    ``places``   of the brokers that routes publish to, as Spark reaches them, by name.
    ``rejects``  topic of the source for records that do not decode, or that no route takes; None: these are
                 counted and left behind.
    """

    source: KafkaPlace
    topics: Sequence[str]
    routes: Sequence[Route]
    places: Mapping[str, KafkaPlace]
    rejects: str | None = None

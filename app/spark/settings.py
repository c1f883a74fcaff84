"""The settings of Spark, of the brokers that it reads and of a reroute, as plain values.

``app.features.lake`` creates them from the configuration. A program that submits a job to a cluster
may create them itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import msgspec

from app.spark.pulsar.options import Options

if TYPE_CHECKING:
    from app.model.route import Route  # Spark's workers import this module without the model

CatalogKind = Literal["jdbc", "rest", "hive", "glue", "hadoop"]

NOTHING: Mapping[str, str] = MappingProxyType({})


class LakeCatalog(msgspec.Struct, frozen=True):
    """The Iceberg catalog, which stores which files make up a table.

    Attributes:
        kind: The kind of the catalog; the default is ``jdbc`` with a SQLite file.
        uri: The address: ``jdbc:sqlite:/data/lake/catalog.db``, ``https://...``; empty for
            ``hadoop`` and ``glue``.
        warehouse: The URI of the folder for files of new tables: ``file:///data/lake``,
            ``s3://...``.
        properties: Further properties as Iceberg names them (``io-impl``, ``s3.endpoint``,
            ``credential``).
    """

    kind: CatalogKind
    uri: str
    warehouse: str
    properties: Mapping[str, str] = NOTHING


class KafkaPlace(msgspec.Struct, frozen=True):
    """A Kafka cluster, or the Kafka listener of an embedded log.

    Attributes:
        broker: The name of the broker in the configuration, which the rows contain.
        bootstrap_servers: The addresses as Kafka's clients take them.
        options: Security options as Kafka's Java clients name them, without Spark's prefix
            ``kafka.`` (``security.protocol``, ``sasl.jaas.config``, ``ssl.truststore.location``).
    """

    broker: str
    bootstrap_servers: str
    options: Mapping[str, str] = NOTHING


class PulsarPlace(msgspec.Struct, frozen=True):
    """A Pulsar cluster with the options of its data source. Topics have their full names:
    ``persistent://...``.
    """

    cluster: Options

    @property
    def broker(self) -> str:
        return self.cluster.name


class SparkEngine(msgspec.Struct, frozen=True):
    """The settings with which Spark runs.

    Attributes:
        master: The address of the master: ``local[*]``, ``spark://host:7077``; empty leaves it to
            ``spark-submit``.
        memory: The memory of the driver's JVM, such as ``2g``. In local mode this JVM does all the
            work.
        conf: Further settings as Spark names them. They take precedence over the settings of
            Skybridge.
        extra_jars: The files of further jars, in addition to those of Skybridge or of ``conf``.
        with_postgresql: Whether the jars of Skybridge include the driver of PostgreSQL.
        with_s3: Whether the jars of Skybridge include Iceberg's classes for S3.
    """

    master: str = "local[*]"
    memory: str = "2g"
    conf: Mapping[str, str] = NOTHING
    extra_jars: tuple[str, ...] = ()
    with_postgresql: bool = False
    with_s3: bool = False

    @property
    def has_jars(self) -> bool:
        """Return True if the settings name the jars, so that Skybridge does not download its own."""
        return not {"spark.jars", "spark.jars.packages"}.isdisjoint(self.conf)


class Reroute(msgspec.Struct, frozen=True):
    """The settings of a reroute job.

    Attributes:
        source: The cluster of the topics.
        topics: The topics that are read.
        routes: All routes of the configuration in order; the first match wins.
        places: The clusters of the brokers that routes publish to, by broker name.
        rejects: The topic of the source for records that do not decode or match no route. None:
            such records are only counted.
    """

    source: KafkaPlace
    topics: Sequence[str]
    routes: Sequence[Route]
    places: Mapping[str, KafkaPlace]
    rejects: str | None = None

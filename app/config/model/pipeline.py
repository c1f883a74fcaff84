"""The settings of the data pipeline: the lake, what is archived into it, and how Spark runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, SecretStr, model_validator

from app.config.model.kafka_listener import Address
from app.model.duration import Count, Duration
from app.model.route import Name, Strict
from app.model.start import Start, StartSetting

_NAMESPACE = r"^[a-z][a-z0-9_]{0,62}$"
_OWN_TABLES = {"events", "events_raw", "leases", "quarantine"}
_DERIVED = ("latest", "snapshots", "history", "files", "partitions", "manifests")
"""The ends of the names of tables that ``query`` derives from each table."""


class Catalog(Strict):
    """Iceberg's catalog, which lists the files of each table. By default it is a SQLite file in the
    folder of the lake.
    """

    kind: Literal["jdbc", "rest", "hive", "glue", "hadoop"] = Field(
        "jdbc",
        description="kind of the catalog; hadoop keeps only files and needs a file system with "
        "atomic rename",
    )
    uri: str | None = Field(
        None,
        description="address: jdbc:sqlite:FILE, jdbc:postgresql://..., https://..., "
        "thrift://...; without it, kind jdbc uses catalog.db in the folder of the "
        "lake",
    )
    properties: dict[str, SecretStr] = Field(
        {},
        description="further properties by Iceberg's names (io-impl, s3.endpoint, credential); "
        'secrets best as "${env:NAME}"',
    )

    @model_validator(mode="after")
    def uri_fits(self) -> Catalog:
        if self.kind in {"rest", "hive"} and not self.uri:
            raise ValueError(f"The catalog of kind {self.kind} needs uri. Cure: Set uri.")
        return self


class LakeSettings(Strict):
    """The Apache Iceberg tables that store events."""

    warehouse: Annotated[str, Field(min_length=1)] = Field(
        "./skybridge-data/lake",
        description="where the files of the tables go: a folder, or s3://bucket/path, hdfs://...",
    )
    catalog: Catalog = Field(Catalog(), description="Iceberg's catalog")
    namespace: Annotated[str, Field(pattern=_NAMESPACE)] = Field(
        "skybridge", description="the tables are lake.NAMESPACE.events, and so on"
    )
    retention: Annotated[Duration, Field(ge=86_400)] | None = Field(
        None,
        description="age from which maintain deletes rows, in whole days of UTC: by the time of an event, and "
        "by the time of a record; without it, rows stay",
    )
    buckets: Annotated[Count, Field(ge=1, le=4096)] = Field(
        1,
        description="partitions of each day of the table events, by source and id, for days of many gigabytes; "
        "fixed when the table is created, until maintain --relayout",
    )


class LakeTable(Strict):
    """A table with the data of one event type, in the columns that a JSON Schema describes."""

    model_config = ConfigDict(serialize_by_alias=True)

    type: Annotated[str, Field(min_length=1)] = Field(
        description="type of the events whose data the table has"
    )
    data_schema: Path = Field(
        alias="schema",
        description="file with the JSON Schema (2020-12) of the data; its properties become columns",
    )
    table: Annotated[str, Field(pattern=_NAMESPACE)] = Field(
        description="name of the table: lake.NAMESPACE.TABLE"
    )


class LakeDuplicates(Strict):
    """The search for events that the lake has already, by source and id."""

    window: Annotated[Duration, Field(ge=60)] | None = Field(
        None,
        description="time between two records from which their equal events are two events; without it, "
        "an event is in the lake once",
    )


class Archive(Strict):
    """The job that copies records into the lake: which records, and how often."""

    broker: Name | None = Field(
        None,
        description="a name under brokers, of kind kafka or pulsar, or embedded with a "
        "kafka_listener; without it, the only such broker",
    )
    topics: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")], ...] = Field(
        (), description="topics to read; without them, the topics of the broker's routes"
    )
    start: StartSetting = Field(
        "earliest",
        description="where reading starts in topics that are new to the lake: earliest, latest "
        "or {time: ...}",
    )
    trigger: Duration = Field(
        "30s",
        validate_default=True,
        description="time from the start of one batch to the start of the next",
    )
    max_offsets_per_trigger: Annotated[Count, Field(ge=1)] = Field(
        200_000, description="most records of one batch, over all partitions"
    )
    deduplicate: LakeDuplicates = Field(
        LakeDuplicates(), description="how far back repeated events are looked for"
    )
    metrics: Address | None = Field(
        None,
        description="host:port where a running archive serves its metrics for Prometheus; without "
        "it, nowhere",
    )

    @model_validator(mode="before")
    @classmethod
    def has_no_checkpoint(cls, given: Any) -> Any:
        if isinstance(given, dict) and "checkpoint" in given:
            raise ValueError(
                "The archive has no checkpoint: the lake has its positions. Cure: Remove checkpoint, or name"
                " its folder as pipeline.state, where reroute and replay keep their positions."
            )
        return given

    @model_validator(mode="after")
    def start_is_a_time(self) -> Archive:
        if isinstance(self.start, Start) and self.start.time is None:
            raise ValueError(
                "The start of the archive cannot be a position. Cure: Write earliest, latest or {time: ...}."
            )
        return self


class Spark(Strict):
    """Settings of Spark. By default it runs inside the command, on all cores of this machine."""

    master: str = Field(
        "local[*]",
        description="local[N], spark://host:7077, yarn, k8s://...; empty: spark-submit decides",
    )
    memory: Annotated[str, Field(pattern=r"^[1-9]\d*[kmgt]$")] = Field(
        "2g", description="memory of the driver, which does all the work if master is local"
    )
    extra_jars: tuple[Path, ...] = Field(
        (),
        description="jar files that Java needs in addition to those of Skybridge, such as the driver of a "
        "database; spark.jars in conf would replace those of Skybridge",
    )
    conf: dict[str, SecretStr] = Field(
        {}, description="further settings by Spark's names; they override Skybridge's"
    )


class Pipeline(Strict):
    """The data pipeline on Spark (the extra ``pipeline``): ``skybridge pipeline``."""

    storage: Literal["s3"] | None = Field(
        None,
        description="what stores the files of the lake: s3 brings Iceberg's classes for S3, and is the default "
        "if warehouse begins with s3://; with s3, warehouse may be a name that a REST catalog knows",
    )
    lake: LakeSettings = Field(LakeSettings(), description="the tables")
    archive: Archive = Field(Archive(), description="the job that fills the tables")
    tables: tuple[LakeTable, ...] = Field(
        (),
        description="tables with the data of one event type each, in addition to the table events",
    )
    spark: Spark = Field(Spark(), description="how Spark runs")
    state: str | None = Field(
        None,
        description="where reroute and replay keep their positions: a persistent folder or URI; without it, "
        "a folder of the lake, or ./skybridge-data/checkpoints if the lake is in S3",
    )

    @model_validator(mode="after")
    def tables_differ(self) -> Pipeline:
        for name in ("type", "table"):
            found = [getattr(each, name) for each in self.tables]
            if again := sorted({each for each in found if found.count(each) > 1}):
                raise ValueError(
                    f"The {name} {again[0]} is in two tables. Cure: Give each table a {name} of its own."
                )
        names = {each.table for each in self.tables}
        derived = {f"{name}_{end}" for name in names | _OWN_TABLES for end in _DERIVED}
        if taken := sorted(names & (_OWN_TABLES | derived)):
            raise ValueError(
                f"The table {taken[0]} is one of the lake's own. Cure: Name another table."
            )
        return self

"""From the configuration to what the verbs of the pipeline are told (``app.pipeline.settings``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from app.config.brokers import EmbeddedBroker, KafkaBroker
from app.config.kafka_listener import KafkaListener
from app.config.model import Config
from app.config.pipeline import Catalog as CatalogSettings
from app.errors import SetupError
from app.model.route import Target
from app.pipeline.settings import Catalog, Engine, KafkaPlace, Lake
from app.routing.places import fixed_place, is_fixed
from app.runtime.java_client import listener_options, options

_BROKER = "pipeline.archive.broker"
_TOPICS = "pipeline.archive.topics"


def engine_of(config: Config) -> Engine:
    spark = config.pipeline.spark
    conf = {name: value.get_secret_value() for name, value in spark.conf.items()}
    return Engine(master=spark.master, memory=spark.memory, conf=conf)


def lake_of(config: Config) -> Lake:
    """Makes the folder of a lake on this machine: SQLite makes a file, no folder."""
    lake = config.pipeline.lake
    warehouse, folder = lake.warehouse.rstrip("/"), _folder(lake.warehouse)
    if folder is not None:
        warehouse = folder.as_uri()
    return Lake(
        catalog=_catalog(lake.catalog, warehouse, folder),
        namespace=lake.namespace,
        buckets=lake.buckets,
    )


def checkpoint_of(config: Config) -> str:
    """The folder that all checkpoints are below, as a URI."""
    own = config.pipeline.archive.checkpoint
    if own is None:
        return f"{lake_of(config).catalog.warehouse}/_checkpoints"
    folder = _folder(own)
    return own.rstrip("/") if folder is None else folder.as_uri()


def archived_place(config: Config) -> KafkaPlace:
    """Where ``archive`` reads. Raises SetupError where Spark cannot read, or where it could mean several."""
    return kafka_place(config, config.pipeline.archive.broker or _only_broker(config), _BROKER)


def kafka_place(config: Config, name: str, setting: str = "brokers") -> KafkaPlace:
    """A broker of the configuration as Spark reaches it. Raises SetupError for one that it cannot."""
    match config.brokers.get(name):
        case KafkaBroker() as broker:
            found = options(broker.security, f"brokers.{name}.security")
            return KafkaPlace(name, broker.bootstrap_servers, found)
        case EmbeddedBroker(kafka_listener=KafkaListener() as listener):
            setting = f"brokers.{name}.kafka_listener"
            address = listener.advertised or listener.listen
            if address.endswith(":0"):
                raise SetupError(
                    f"the listener of {name} takes any free port, which nobody can know",
                    setting=setting,
                    cure='give it a port: "127.0.0.1:19092"',
                )
            return KafkaPlace(name, address, listener_options(listener, setting))
        case EmbeddedBroker():
            raise SetupError(
                f"Spark reads the embedded log {name} by its Kafka listener, and there is none",
                setting=f"brokers.{name}",
                cure='add kafka_listener: "127.0.0.1:19092" to it, and restart the service that serves it',
            )
        case None:
            raise SetupError(
                f"there is no broker {name!r}",
                setting=setting,
                cure=f"known here: {', '.join(sorted(config.brokers))}",
            )
        case other:
            raise SetupError(
                f"{name} is of kind {other.kind}, which Spark does not read here",
                setting=setting,
                cure="name one of kind kafka or embedded; a subscription whose sink is a topic of such a"
                " broker brings the events there",
            )


def archived_topics(config: Config, broker: str) -> tuple[str, ...]:
    """Those named, or those that the routes to that broker publish to. Raises SetupError for none."""
    if config.pipeline.archive.topics:
        return config.pipeline.archive.topics
    targets = list(_targets(config, broker))
    if open_ones := [each.topic for each in targets if not is_fixed(each)]:
        raise SetupError(
            f"a route publishes to topics that its events name: {', '.join(open_ones)}",
            setting=_TOPICS,
            cure="list the topics to archive",
        )
    if not targets:
        raise SetupError(
            f"no route publishes to {broker}, so there is no topic to archive",
            setting=_TOPICS,
            cure="list the topics to archive",
        )
    return tuple(dict.fromkeys(fixed_place(each) for each in targets))


def _only_broker(config: Config) -> str:
    """The one that Spark may read; an embedded log without a listener is one, to be told the cure."""
    readable = [n for n, b in config.brokers.items() if isinstance(b, KafkaBroker | EmbeddedBroker)]
    listening = [name for name in readable if not _is_mute(config, name)]
    return _one(listening or readable)


def _is_mute(config: Config, name: str) -> bool:
    broker = config.brokers[name]
    return isinstance(broker, EmbeddedBroker) and broker.kafka_listener is None


def _one(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    which = f"there are several: {', '.join(names)}" if names else "there is none"
    raise SetupError(
        f"which broker is archived is not said, and {which}",
        setting=_BROKER,
        cure="name one of kind kafka, or embedded with a kafka_listener",
    )


def _targets(config: Config, broker: str) -> Iterator[Target]:
    for route in config.routes:
        for target in route.to:
            if target.broker == broker and isinstance(target, Target):
                yield target


def _folder(text: str) -> Path | None:
    """Of this machine; None for a URI of anywhere else."""
    if "://" in text and not text.startswith("file://"):
        return None
    return Path(text.removeprefix("file://")).absolute()


def _catalog(settings: CatalogSettings, warehouse: str, folder: Path | None) -> Catalog:
    uri = settings.uri or ""
    if settings.kind == "jdbc" and not uri:
        if folder is None:
            raise SetupError(
                "a lake that is no folder of this machine needs a catalog that says where it is",
                setting="pipeline.lake.catalog.uri",
                cure="jdbc:postgresql://host/database, or kind: rest, hive, glue",
            )
        uri = f"jdbc:sqlite:{folder / 'catalog.db'}"
    if uri.startswith("jdbc:sqlite:"):
        Path(uri.removeprefix("jdbc:sqlite:").partition("?")[0]).parent.mkdir(
            parents=True, exist_ok=True
        )
    properties = {name: value.get_secret_value() for name, value in settings.properties.items()}
    return Catalog(settings.kind, uri, warehouse, properties)

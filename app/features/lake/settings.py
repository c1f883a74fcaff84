"""From the configuration to what the verbs of the pipeline are told (``app.pipeline.settings``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from app.brokers.security import ClientTls
from app.config.model.brokers import EmbeddedBroker, KafkaBroker, PulsarBroker
from app.config.model.config import Config
from app.config.model.kafka_listener import KafkaListener
from app.config.model.pipeline import Catalog as CatalogSettings
from app.errors import SetupError
from app.features.lake.java_client import listener_options, options
from app.model.route import Target
from app.pipeline.pulsar_options import Options, full_topic
from app.pipeline.settings import Catalog, Engine, KafkaPlace, Lake, PulsarPlace, Reroute
from app.routing.places import fixed_place, is_fixed

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


def archived_place(config: Config) -> KafkaPlace | PulsarPlace:
    """Where ``archive`` reads. Raises SetupError where Spark cannot read, or where it could mean several."""
    name = config.pipeline.archive.broker or _only_broker(config)
    broker = config.brokers.get(name)
    return (
        pulsar_place(name, broker)
        if isinstance(broker, PulsarBroker)
        else kafka_place(config, name, _BROKER)
    )


def pulsar_place(name: str, broker: PulsarBroker) -> PulsarPlace:
    """As Spark's workers reach it: files have to be on their machines too."""
    security = broker.security
    tls, oauth2 = security.tls or ClientTls(), security.oauth2
    return PulsarPlace(
        Options(
            service_url=broker.service_url,
            admin_url=broker.admin_url,
            topics="",
            name=name,
            namespace=broker.namespace,
            token=None if security.token is None else security.token.get_secret_value(),
            oauth2_issuer_url=None if oauth2 is None else oauth2.issuer_url,
            oauth2_credentials=None if oauth2 is None else str(oauth2.credentials),
            oauth2_audience="" if oauth2 is None else oauth2.audience,
            oauth2_scope="" if oauth2 is None else oauth2.scope,
            tls_ca=_path(tls.ca),
            tls_certificate=_path(tls.cert),
            tls_key=_path(tls.key),
            tls_verify_host=tls.verify_host,
        )
    )


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
                    f"the listener of {name} takes any free port, which Spark cannot know",
                    setting=setting,
                    cure='give it a fixed port: "127.0.0.1:19092"',
                )
            return KafkaPlace(name, address, listener_options(listener, config.producers, setting))
        case EmbeddedBroker():
            raise SetupError(
                f"Spark reads the embedded log {name} through its Kafka listener, but it has none",
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
                f"{name} is of kind {other.kind}, which Spark cannot read here",
                setting=setting,
                cure="name one of kind kafka or embedded; a subscription whose sink is a topic of such a"
                " broker brings the events there",
            )


def archived_topics(config: Config, broker: str) -> tuple[str, ...]:
    """Those named, or those that the routes to that broker publish to, as the lake calls them: topics of Pulsar
    by their full names. Raises SetupError for none.
    """
    named = _archived_topics(config, broker)
    place = config.brokers.get(broker)
    if not isinstance(place, PulsarBroker):
        return named
    return tuple(full_topic(topic, place.namespace) for topic in named)


def _archived_topics(config: Config, broker: str) -> tuple[str, ...]:
    if config.pipeline.archive.topics:
        return config.pipeline.archive.topics
    targets = list(_targets(config, broker))
    if open_ones := [each.topic for each in targets if not is_fixed(each)]:
        raise SetupError(
            f"a route publishes to topics that depend on its events: {', '.join(open_ones)}",
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
    """The one that Spark may read; an embedded log without a listener is one, to be told the cure. A Pulsar
    where there is nothing else.
    """
    readable = [n for n, b in config.brokers.items() if isinstance(b, KafkaBroker | EmbeddedBroker)]
    readable = readable or [n for n, b in config.brokers.items() if isinstance(b, PulsarBroker)]
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
        f"the broker to archive is not named, and {which}",
        setting=_BROKER,
        cure="name one of kind kafka or pulsar, or embedded with a kafka_listener",
    )


def _targets(config: Config, broker: str) -> Iterator[Target]:
    for route in config.routes:
        for target in route.to:
            if target.broker == broker and isinstance(target, Target):
                yield target


def _path(file: Path | None) -> str | None:
    return None if file is None else str(file.absolute())


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
                "a lake outside this machine's folders needs a catalog on a server",
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


def reroute_of(
    config: Config, broker: str, topics: Sequence[str], rejects: str | None = None
) -> Reroute:
    """Raises SetupError where ``broker`` is none that Spark reads. What its routes publish to and Spark does not
    reach is left out: ``reroute.plan.checked`` says so, with all the rest.
    """
    return Reroute(
        source=kafka_place(config, broker, "--from"),
        topics=tuple(topics),
        routes=config.routes,
        places=_places(config),
        rejects=rejects,
    )


def _places(config: Config) -> dict[str, KafkaPlace]:
    found: dict[str, KafkaPlace] = {}
    for name in dict.fromkeys(target.broker for route in config.routes for target in route.to):
        try:
            found[name] = kafka_place(config, name)
        except SetupError:
            continue
    return found

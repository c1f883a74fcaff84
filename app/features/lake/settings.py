"""Convert the configuration to the settings of the pipeline (``app.pipeline.settings``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from app.brokers.security import ClientTls
from app.config.derived.typed_tables import typed_tables
from app.config.model.brokers import EmbeddedBroker, KafkaBroker, PulsarBroker
from app.config.model.config import Config
from app.config.model.kafka_listener import KafkaListener
from app.config.model.pipeline import Catalog as CatalogSettings
from app.errors import SetupError
from app.features.lake.java_client import listener_options, options
from app.model.route import Target
from app.pipeline.settings import Lake
from app.routing.places import fixed_place, is_fixed
from app.spark.pulsar.options import Options, full_topic
from app.spark.settings import KafkaPlace, LakeCatalog, PulsarPlace, Reroute, SparkEngine

_STATE = "./skybridge-data/checkpoints"
"""The state of the jobs of a lake in S3, to which they cannot write. The driver alone uses it."""
_S3_CLASS = "org.apache.iceberg.aws.s3.S3FileIO"
_BROKER = "pipeline.archive.broker"
_TOPICS = "pipeline.archive.topics"


def engine_of(config: Config) -> SparkEngine:
    """Return the settings of Spark. Raise SetupError if a file of ``extra_jars`` is missing."""
    spark = config.pipeline.spark
    if absent := [str(each) for each in spark.extra_jars if not each.is_file()]:
        raise SetupError(
            f"There is no file {', '.join(absent)}.",
            setting="pipeline.spark.extra_jars",
            cure="Download the jar there, or correct the path.",
        )
    return SparkEngine(
        master=spark.master,
        memory=spark.memory,
        conf={name: value.get_secret_value() for name, value in spark.conf.items()},
        extra_jars=tuple(str(each.absolute()) for each in spark.extra_jars),
        with_postgresql=(config.pipeline.lake.catalog.uri or "").startswith("jdbc:postgresql:"),
        with_s3=_is_in_s3(config),
    )


def _is_in_s3(config: Config) -> bool:
    pipeline = config.pipeline
    return pipeline.storage == "s3" or pipeline.lake.warehouse.startswith("s3://")


def lake_of(config: Config) -> Lake:
    """Return the settings of the lake. The folder of a lake on this machine is created, because SQLite does
    not create folders."""
    lake, in_s3 = config.pipeline.lake, _is_in_s3(config)
    warehouse, folder = lake.warehouse.rstrip("/"), None if in_s3 else _folder(lake.warehouse)
    if folder is not None:
        warehouse = folder.as_uri()
    return Lake(
        catalog=_catalog(lake.catalog, warehouse, folder, in_s3=in_s3),
        namespace=lake.namespace,
        buckets=lake.buckets,
        tables=typed_tables(config.pipeline.tables),
        window=config.pipeline.archive.deduplicate.window,
    )


def state_folder(config: Config) -> str:
    """Return the URI of the folder where ``reroute`` and ``replay`` keep their positions."""
    own = config.pipeline.state
    if own is None:
        if not _is_in_s3(config):
            return f"{lake_of(config).catalog.warehouse}/_checkpoints"
        own = _STATE
    folder = _folder(own)
    return own.rstrip("/") if folder is None else folder.as_uri()


def archived_place(config: Config) -> KafkaPlace | PulsarPlace:
    """Return the broker from which ``archive`` reads. Raise SetupError if Spark cannot read it, or if several
    brokers are possible."""
    name = config.pipeline.archive.broker or _only_broker(config)
    broker = config.brokers.get(name)
    return (
        pulsar_place(name, broker)
        if isinstance(broker, PulsarBroker)
        else kafka_place(config, name, _BROKER)
    )


def pulsar_place(name: str, broker: PulsarBroker) -> PulsarPlace:
    """Return the options with which Spark reads a Pulsar broker. Files must exist on the machines of the
    workers too."""
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
    """Return the address and options with which Spark reads a broker. Raise SetupError if Spark cannot read
    it."""
    match config.brokers.get(name):
        case KafkaBroker() as broker:
            found = options(broker.security, f"brokers.{name}.security")
            return KafkaPlace(name, broker.bootstrap_servers, found)
        case EmbeddedBroker(kafka_listener=KafkaListener() as listener):
            setting = f"brokers.{name}.kafka_listener"
            address = listener.advertised or listener.listen
            if address.endswith(":0"):
                raise SetupError(
                    f"the Kafka listener of {name} uses any free port, which Spark cannot know",
                    setting=setting,
                    cure='give it a fixed port: "127.0.0.1:19092"',
                )
            return KafkaPlace(name, address, listener_options(listener, config.producers, setting))
        case EmbeddedBroker():
            raise SetupError(
                f"the embedded log {name} has no Kafka listener, through which Spark would read it",
                setting=f"brokers.{name}",
                cure='add kafka_listener: "127.0.0.1:19092" to it, and restart its service',
            )
        case None:
            raise SetupError(
                f"broker {name!r} does not exist",
                setting=setting,
                cure=f"name one of: {', '.join(sorted(config.brokers))}",
            )
        case other:
            raise SetupError(
                f"broker {name} has the kind {other.kind}, which Spark cannot read",
                setting=setting,
                cure="name one of kind kafka or embedded. A subscription whose sink is a topic of such a"
                " broker copies the events there",
            )


def archived_topics(config: Config, broker: str) -> tuple[str, ...]:
    """Return the topics to archive: those of the settings, or those to which routes publish on the broker.
    Topics of Pulsar have their full names. Raise SetupError if there are none."""
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
            f"no topic is listed, and no route publishes to {broker}",
            setting=_TOPICS,
            cure="list the topics to archive",
        )
    return tuple(dict.fromkeys(fixed_place(each) for each in targets))


def _only_broker(config: Config) -> str:
    """Return the only broker from which Spark may read. A Kafka or embedded broker has precedence over
    Pulsar. An embedded log without a listener is returned only if there is no other broker. The error
    about the missing listener then names the cure."""
    readable = [n for n, b in config.brokers.items() if isinstance(b, KafkaBroker | EmbeddedBroker)]
    readable = readable or [n for n, b in config.brokers.items() if isinstance(b, PulsarBroker)]
    listening = [name for name in readable if not _lacks_listener(config, name)]
    return _only_name(listening or readable)


def _lacks_listener(config: Config, name: str) -> bool:
    """Return True for an embedded log without a Kafka listener."""
    broker = config.brokers[name]
    return isinstance(broker, EmbeddedBroker) and broker.kafka_listener is None


def _only_name(names: Sequence[str]) -> str:
    """Return the only name. Raise SetupError if there is none or there are several."""
    if len(names) == 1:
        return names[0]
    which = f"there are several: {', '.join(names)}" if names else "there is none"
    raise SetupError(
        f"the broker to archive is not set, and {which}",
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
    """Return the folder on this machine that a setting names, or None for another URI."""
    if "://" in text and not text.startswith("file://"):
        return None
    return Path(text.removeprefix("file://")).absolute()


def _catalog(
    settings: CatalogSettings, warehouse: str, folder: Path | None, *, in_s3: bool
) -> LakeCatalog:
    """Return the settings of the catalog. Raise SetupError if the lake is on another machine and no catalog
    is configured."""
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
    if in_s3:
        region = properties.get("s3.region")
        own = {"io-impl": _S3_CLASS, **({"client.region": region} if region else {})}
        properties = {**own, **properties}
    return LakeCatalog(settings.kind, uri, warehouse, properties)


def reroute_of(
    config: Config, broker: str, topics: Sequence[str], rejects: str | None = None
) -> Reroute:
    """Return the settings of a reroute. Raise SetupError if Spark cannot read the broker. Targets that Spark
    cannot write are left out, and ``reroute.plan.checked`` reports them."""
    return Reroute(
        source=kafka_place(config, broker, "--from"),
        topics=tuple(topics),
        routes=config.routes,
        places=_places(config),
        rejects=rejects,
    )


def _places(config: Config) -> dict[str, KafkaPlace]:
    """Return the brokers of all routes that Spark can read or write."""
    found: dict[str, KafkaPlace] = {}
    for name in dict.fromkeys(target.broker for route in config.routes for target in route.to):
        try:
            found[name] = kafka_place(config, name)
        except SetupError:
            continue
    return found

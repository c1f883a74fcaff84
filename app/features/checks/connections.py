"""Check whether the store and the brokers of a configuration can be reached and have the topics that it
names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from app.brokers.portable import PortableLog
from app.config.load.finding import Finding, Path, written
from app.config.load.loader import Loaded
from app.config.model.brokers import EmbeddedBroker, RabbitBroker
from app.config.model.config import Config
from app.errors import InUse, SetupError, SkybridgeError
from app.features.brokers.logs import open_logs
from app.features.brokers.targets import written_places
from app.features.storage.stores import check_store_connection
from app.model.position import positions_not_held
from app.model.start import Start

Level = Literal["error", "warning"]
FAREWELL = 1.0  # seconds to close the connection to a broker that does not answer
TURN = 0.1  # seconds between checks of a broker's health


class Connected(NamedTuple):
    """The result of the check: findings, and a line for each store or broker without a finding."""

    findings: list[Finding]
    well: list[str]


async def check_connections(loaded: Loaded, within: float) -> Connected:
    """Check the store, then one broker after another, for at most ``within`` seconds each. Nothing is created
    or changed.

    A file that another process uses is a warning, because that may be the service of this configuration.
    """
    findings = await check_store_connection(loaded)
    well = [] if findings else [f"store: {loaded.config.store.kind}, usable"]
    logs = open_logs(loaded.config)
    for name in loaded.config.brokers:
        found = await _check(loaded, name, logs[name], within)
        if not found:
            well.append(_success_line(loaded.config, name))
        findings += found
    return Connected(findings, well)


def _success_line(config: Config, name: str) -> str:
    """Return the line for a broker without findings."""
    written = len({each.text for each in written_places(config) if each.broker == name})
    read = len({topic for _, topic in _sources(config, name)})
    places = f"{written} to publish to and {read} to read from"
    return f"brokers.{name}: {config.brokers[name].kind}, answers; its topics {places} are usable"


async def _check(loaded: Loaded, name: str, log: PortableLog, within: float) -> list[Finding]:
    """Connect to a broker and return its findings."""
    try:
        async with asyncio.timeout(within) as bound:
            await log.start()
            try:
                cause = await _until_healthy(log, bound)
                return (
                    [_unreachable(loaded, name, cause)]
                    if cause
                    else await _check_topics(loaded, name, log)
                )
            finally:
                await log.stop()
    except TimeoutError:
        return [_unreachable(loaded, name, f"no answer within {within:g} s")]
    except InUse as error:
        return [_setup_finding(loaded, name, error, "warning")]
    except SetupError as error:
        return [_setup_finding(loaded, name, error, "error")]
    except SkybridgeError as error:
        return [_unreachable(loaded, name, str(error))]


async def _until_healthy(log: PortableLog, bound: asyncio.Timeout) -> str:
    """Wait until a broker is healthy and return "". If that takes too long, return the cause, early enough to
    close the connection in time."""
    leave = (bound.when() or 0.0) - FAREWELL
    while True:
        health = await log.health()
        if health.healthy:
            return ""
        if asyncio.get_running_loop().time() >= leave:
            return health.cause
        await asyncio.sleep(TURN)


async def _check_topics(loaded: Loaded, name: str, log: PortableLog) -> list[Finding]:
    """Return a finding for each target, dead-letter topic and source that cannot be used."""
    places = [place for place in written_places(loaded.config) if place.broker == name]
    faults = await log.check_targets(list(dict.fromkeys(place.text for place in places)))
    found = [
        _finding(loaded, "error", place.path, faults[place.text])
        for place in places
        if place.text in faults
    ]
    return found + await _check_sources(loaded, name, log)


async def _check_sources(loaded: Loaded, name: str, log: PortableLog) -> list[Finding]:
    """Return a finding for each source that does not exist, and for each doubtful one."""
    broker = loaded.config.brokers[name]
    sources = list(_sources(loaded.config, name))
    topics = list(dict.fromkeys(topic for _, topic in sources))
    lacking: Mapping[str, str] = {}
    if isinstance(broker, RabbitBroker):  # topics.create does not create queues to read from
        lacking = await log.check_targets(topics)
    elif topics and not isinstance(broker, EmbeddedBroker) and not broker.topics.create:
        known = {topic.name for topic in (await log.metadata(topics)).topics}
        cure = _create(name)
        lacking = {
            topic: f"broker {name} has no topic {topic}: {cure}"
            for topic in topics
            if topic not in known
        }
    found = [
        _finding(loaded, "error", path, lacking[topic])
        for path, topic in sources
        if topic in lacking
    ]
    return found + await _queue_warnings(loaded, log, sources) + await _check_starts(loaded, log)


async def _queue_warnings(
    loaded: Loaded, log: PortableLog, sources: Sequence[tuple[Path, str]]
) -> list[Finding]:
    """Return warnings about existing queues on RabbitMQ that give weaker guarantees. An example is a queue
    with a delivery limit, which drops messages."""
    if not isinstance(loaded.config.brokers[log.name], RabbitBroker):
        return []
    from app.brokers.rabbitmq import RabbitDriver  # noqa: PLC0415 - see ``brokers.drivers``

    assert isinstance(log.driver, RabbitDriver)  # noqa: S101 - as ``open_logs`` creates it
    return [
        _finding(loaded, "warning", path, warning)
        for path, topic in sources
        for warning in await log.driver.inspect([topic])
    ]


async def _check_starts(loaded: Loaded, log: PortableLog) -> list[Finding]:
    """Return warnings about start positions that the log does not have now. They are only warnings, because a
    subscription that has started before does not need its start position."""
    found = []
    kind = loaded.config.brokers[log.name].kind
    for n, each in enumerate(loaded.config.subscriptions):
        start = each.start
        if each.source.broker != log.name or not isinstance(start, Start) or not start.position:
            continue
        for topic in (await log.metadata(each.source.topics)).topics:
            found += [
                _finding(
                    loaded,
                    "warning",
                    ("subscriptions", n, "start", "position", number),
                    f"{reason}. A subscription that has not started yet would stop",
                )
                for number, reason in positions_not_held(kind, start.position, topic)
            ]
    return found


def _sources(config: Config, broker: str) -> Iterator[tuple[Path, str]]:
    """Yield the topics that subscriptions read from a broker, each with its setting."""
    for n, subscription in enumerate(config.subscriptions):
        source = subscription.source
        for m, topic in enumerate(source.topics if source.broker == broker else ()):
            yield ("subscriptions", n, "source", "topics", m), topic


def _create(broker: str) -> str:
    return f"create it, or set brokers.{broker}.topics.create: true"


def _finding(loaded: Loaded, level: Level, path: Path, message: str) -> Finding:
    """Return a finding with a message of the broker, which contains the cure."""
    return Finding(
        level=level,
        setting=written(path),
        message=loaded.redacted(message),
        place=loaded.place(*path),
    )


def _unreachable(loaded: Loaded, name: str, message: str) -> Finding:
    """Return the finding about a broker that does not answer."""
    return Finding(
        level="error",
        setting=f"brokers.{name}",
        message=loaded.redacted(message),
        cure="start it, or correct its address and login",
        place=loaded.place("brokers", name),
    )


def _setup_finding(loaded: Loaded, name: str, error: SetupError, level: Level) -> Finding:
    """Return the finding for an error that names its own setting and cure."""
    return Finding(
        level=level,
        setting=error.setting or f"brokers.{name}",
        message=loaded.redacted(str(error.args[0])),
        cure=loaded.redacted(error.cure),
        place=loaded.place("brokers", name),
    )

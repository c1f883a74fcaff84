"""Whether the brokers of a configuration can be reached, and have the topics it names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from app.config.brokers import KafkaBroker
from app.config.finding import Finding
from app.config.load import Loaded
from app.config.model import Config
from app.errors import SetupError, SkybridgeError
from app.interfaces import Log
from app.runtime.logs import open_logs


async def check_connections(loaded: Loaded, within: float) -> list[Finding]:
    """One broker after another, ``within`` seconds each. An embedded log in use by a running service
    is reported as an error of its path: it cannot be opened twice."""
    findings: list[Finding] = []
    for name, log in open_logs(loaded.config).items():
        findings += await _check(loaded, name, log, within)
    return findings


async def _check(loaded: Loaded, name: str, log: Log, within: float) -> list[Finding]:
    try:
        async with asyncio.timeout(within):
            await log.start()
            try:
                return await _ask(loaded, name, log)
            finally:
                await log.stop()
    except TimeoutError:
        return [_unreachable(loaded, name, f"no answer within {within:g} s")]
    except SetupError as error:
        return [_wrong(loaded, name, error)]
    except SkybridgeError as error:
        return [_unreachable(loaded, name, str(error))]


async def _ask(loaded: Loaded, name: str, log: Log) -> list[Finding]:
    while not (await log.health()).healthy:  # noqa: ASYNC110 - it connects by itself and tells nobody
        await asyncio.sleep(0.1)
    broker = loaded.config.brokers[name]
    if not isinstance(broker, KafkaBroker) or broker.topics.create:
        return []
    known = {topic.name for topic in (await log.metadata()).topics}
    return [
        Finding(
            level="error",
            setting=setting,
            message=f"broker {name} has no topic {topic}",
            cure=f"create it, or set brokers.{name}.topics.create: true",
            place=loaded.place(*path),
        )
        for setting, path, topic in _topics(loaded.config, name)
        if topic not in known
    ]


def _topics(config: Config, broker: str) -> Iterator[tuple[str, tuple[str | int, ...], str]]:
    """Setting, path and topic of every fixed topic that the configuration names on a broker."""
    for number, route in enumerate(config.routes):
        for target in route.to:
            if target.broker == broker and "{" not in target.topic:
                yield f"routes[{number}].to", ("routes", number, "to"), target.topic
    for number, subscription in enumerate(config.subscriptions):
        for topic in subscription.source.topics if subscription.source.broker == broker else ():
            setting = f"subscriptions[{number}].source.topics"
            yield setting, ("subscriptions", number, "source"), topic


def _unreachable(loaded: Loaded, name: str, message: str) -> Finding:
    return Finding(
        level="error",
        setting=f"brokers.{name}",
        message=message,
        cure="start it, or correct its address",
        place=loaded.place("brokers", name),
    )


def _wrong(loaded: Loaded, name: str, error: SetupError) -> Finding:
    """The error names its own setting and cure."""
    return Finding(
        level="error",
        setting=error.setting or f"brokers.{name}",
        message=str(error.args[0]),
        cure=error.cure,
        place=loaded.place("brokers", name),
    )

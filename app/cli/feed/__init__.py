"""Shell. Events to try the bridge with: GitHub's example webhooks, or a generator of our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from app.cli.feed import generated, github, payloads
from app.errors import SetupError
from app.event.value import CloudEvent


class Feed(NamedTuple):
    """``origin`` says in words where the events come from."""

    origin: str
    events: list[CloudEvent]


def github_feed(environ: Mapping[str, str], received: str) -> Feed:
    """Every example payload of the npm package. Raises SetupError when it cannot be had."""
    found = payloads.payloads(payloads.cache_folder(environ))
    events = [
        github.to_event(
            name, body, delivery=github.delivery_of(name, index, body), received=received
        )
        for index, (name, body) in enumerate(found)
    ]
    return Feed(f"{len(events)} GitHub webhook payloads of npm {payloads.PACKAGE}", events)


def load_feed(environ: Mapping[str, str], received: str, count: int) -> Feed:
    """GitHub's payloads where npm or the cache has them, else ``count`` generated events."""
    try:
        return github_feed(environ, received)
    except SetupError as why:
        return generated_feed(count, received, f" ({why.args[0].rstrip('.')})")


def generated_feed(count: int, received: str, why: str = "") -> Feed:
    return Feed(f"{count} generated events{why}", generated.orders(count, received=received))

"""File descriptors of the process, and the connections that they allow each listener.

Every connection takes one. A process without a free descriptor can accept nobody: neither events nor the probe that
asks whether it lives. At start the limit is raised to what the configuration may need, as far as the system allows
it. Where that is not enough, the listeners of events and of Kafka clients share what is left behind the reserve of
files, brokers and webhooks, and behind the reserve of the admin listener.
"""

from __future__ import annotations

import logging
import resource
import sys
from typing import NamedTuple

from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config

RESERVE = 256  # files, brokers, webhooks and refused connections; a quarter of a small limit
ADMIN = 64  # connections that the admin listener can always open
KAFKA = 1_000  # connections of one Kafka listener
WEBHOOKS = 16_384  # wanted on top for the connections of sinks
_QUARTER = 4

_log = logging.getLogger(__name__)


class Shares(NamedTuple):
    """Most open connections of each listener. ``kafka``: of each Kafka listener."""

    events: int
    admin: int
    kafka: int


def raise_limit(config: Config) -> None:
    """Raise the soft limit of descriptors to what the configuration may need, and log what is missing then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _demand(config) + config.limits.connections + RESERVE + ADMIN + WEBHOOKS
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft := allowed, hard))
    found = current_shares(config)
    if found.events < config.limits.connections:
        _log.warning(
            "the system allows this process %d file descriptors: the events listener takes %d connections instead of"
            " limits.connections, %d. Cure: raise the hard limit (LimitNOFILE= of a systemd unit, ulimit -Hn), or"
            " lower limits.connections.",
            soft, found.events, config.limits.connections,
        )  # fmt: skip


def current_shares(config: Config) -> Shares:
    """Return the connections that each listener may open under the limit in force."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return shares(config, sys.maxsize if soft == resource.RLIM_INFINITY else soft)


def shares(config: Config, limit: int) -> Shares:
    """Return the connections that each listener may open, of a process with ``limit`` descriptors."""
    most = config.limits.connections
    demand = _demand(config)
    left = max(1, limit - min(RESERVE, limit // _QUARTER) - min(ADMIN, limit // _QUARTER))
    part = min(1.0, left / demand)
    events, kafka = max(1, int(most * part)), max(1, int(KAFKA * part))
    spare = max(0, left - demand)
    return Shares(events, min(most, min(ADMIN, limit // _QUARTER) + spare), kafka)


def _demand(config: Config) -> int:
    listeners = [
        each
        for each in config.brokers.values()
        if isinstance(each, EmbeddedBroker) and each.kafka_listener is not None
    ]
    return config.limits.connections + KAFKA * len(listeners)

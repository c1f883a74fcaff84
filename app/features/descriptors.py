"""The file descriptors of the process, and the number of connections that each listener may open.

Every connection takes a descriptor. A process without a free descriptor accepts neither events nor liveness
probes. At start, the limit is raised to the number that the configuration may need, if the system allows it.
If the limit stays too low, one reserve is kept for files, brokers and webhooks, and another for the admin
listener. The listeners of events and of Kafka clients share all other descriptors.
"""

from __future__ import annotations

import logging
import resource
import sys
from typing import NamedTuple

from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config

RESERVE = 256  # files, brokers, webhooks, refused connections; at most a quarter of the limit
ADMIN = 64  # connections that the admin listener can always open
KAFKA = 1_000  # connections of one Kafka listener
WEBHOOKS = 16_384  # requested in addition, for the connections of sinks
_QUARTER = 4

_log = logging.getLogger(__name__)


class Shares(NamedTuple):
    """The maximum number of open connections of each listener. ``kafka`` is the number for each single Kafka
    listener."""

    events: int
    admin: int
    kafka: int


def raise_limit(config: Config) -> None:
    """Raise the soft limit of descriptors to the number that the configuration may need. Log a warning if the
    system allows fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _demand(config) + config.limits.connections + RESERVE + ADMIN + WEBHOOKS
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft := allowed, hard))
    found = current_shares(config)
    if found.events < config.limits.connections:
        _log.warning(
            "the system allows this process %d file descriptors, so the events listener accepts %d connections instead"
            " of limits.connections, %d. Cure: raise the hard limit (LimitNOFILE= of a systemd unit, ulimit -Hn),"
            " or lower limits.connections.",
            soft, found.events, config.limits.connections,
        )  # fmt: skip


def current_shares(config: Config) -> Shares:
    """Return the connections that each listener may open under the current limit of the process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return shares(config, sys.maxsize if soft == resource.RLIM_INFINITY else soft)


def shares(config: Config, limit: int) -> Shares:
    """Return the connections that each listener may open if the process may have ``limit`` descriptors."""
    most = config.limits.connections
    demand = _demand(config)
    left = max(1, limit - min(RESERVE, limit // _QUARTER) - min(ADMIN, limit // _QUARTER))
    part = min(1.0, left / demand)
    events, kafka = max(1, int(most * part)), max(1, int(KAFKA * part))
    spare = max(0, left - demand)
    return Shares(events, min(most, min(ADMIN, limit // _QUARTER) + spare), kafka)


def _demand(config: Config) -> int:
    """Return the descriptors that the events listener and the Kafka listeners need together."""
    listeners = [
        each
        for each in config.brokers.values()
        if isinstance(each, EmbeddedBroker) and each.kafka_listener is not None
    ]
    return config.limits.connections + KAFKA * len(listeners)

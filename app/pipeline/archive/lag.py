"""How far the lake is behind its topics, for monitoring: ``skybridge_archive_lag_seconds``.

What is known is a moment for each topic: all that was stored before it is in the lake, events made of it
included. It is the begin of a batch that read to the end of the topic as it was then, once that batch is
done. So the lag is never told smaller than it is, and grows by itself while nothing gets done. At rest it is the
time between batches, and up to ten seconds more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.errors import SetupError


class Lag:
    """``now``: seconds since the epoch. Before the first batch the lag is the time since the start."""

    def __init__(
        self,
        topics: Sequence[str],
        now: Callable[[], float] = time.time,  # noqa: TID251 - compared with Spark's own times
    ) -> None:
        self._now = now
        self._complete = dict.fromkeys(topics, now())

    def reached(self, progress: Mapping[str, Any]) -> None:
        """A batch is done, or there was nothing for one: what Spark tells of it."""
        begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
        for topic, before in self._complete.items():
            if not progress["numInputRows"] or _to_its_end(progress["sources"], topic):
                self._complete[topic] = max(before, begun)

    def seconds(self) -> Mapping[str, float]:
        now = self._now()
        return {topic: max(0.0, now - moment) for topic, moment in self._complete.items()}


def _to_its_end(sources: Iterable[Mapping[str, Any]], topic: str) -> bool:
    """Whether a batch read all that was there when it began. False where its source does not say."""
    for source in sources:
        end, latest = (offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        if topic in latest:
            read = end.get(topic, {})
            return all(read.get(number, 0) >= at for number, at in latest[topic].items())
    return False


def offsets(told: Any) -> Mapping[str, Mapping[str, int]]:
    """By topic and partition, as Kafka's source tells them; nothing of any other source."""
    try:
        found = json.loads(told) if isinstance(told, str) else told
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {topic: each for topic, each in found.items() if isinstance(each, dict)}


class _Lags(Collector):
    def __init__(self, lag: Lag) -> None:
        self._lag = lag

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "skybridge_archive_lag_seconds",
            "Age of the oldest record that may not be in the lake.",
            labels=("topic",),
        )
        for topic, seconds in self._lag.seconds().items():
            family.add_metric((topic,), seconds)
        yield family


@contextmanager
def exporting(lag: Lag, address: str | None) -> Iterator[None]:
    """Prometheus text at ``host:port``, on a thread of its own; nothing without an address. Raises SetupError
    for one that cannot be had."""
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(_Lags(lag))
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        raise SetupError(
            f"metrics cannot be served at {address}: {error.strerror}",
            setting="pipeline.archive.metrics",
            cure="name an address of this machine and a port that is free",
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

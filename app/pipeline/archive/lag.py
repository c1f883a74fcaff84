"""The age of records that may not be in the lake yet, for monitoring:
``skybridge_archive_lag_seconds``.

For each topic, the archive remembers a time. All records stored before that time are in the lake, with the events
derived from them. The time is the start of the last finished batch that read to the end of the topic. So the lag is
never reported too small, and grows while no batch succeeds. Without new records, the lag is the time between two
batches, and up to ten seconds more.
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

METRIC = (
    "archive_lag_seconds",
    ("topic",),
    "Age in seconds of the oldest record of the topic that may not be in the lake yet.",
)
"""The name, labels and help text of the metric."""


class Lag:
    """The lag of each topic, counted from the start of the archive until the first batch ends."""

    def __init__(
        self,
        topics: Sequence[str],
        now: Callable[[], float] = time.time,  # noqa: TID251 - compared with Spark's own times
    ) -> None:
        """Start to measure these topics. ``now`` returns seconds since the epoch."""
        self._now = now
        self._complete = dict.fromkeys(topics, now())

    def reached(self, progress: Mapping[str, Any]) -> None:
        """Record the progress report of a finished batch, or of an idle moment without new records."""
        begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
        for topic, before in self._complete.items():
            if not progress["numInputRows"] or _was_read_to_end(progress["sources"], topic):
                self._complete[topic] = max(before, begun)

    def seconds(self) -> Mapping[str, float]:
        """Return the lag of each topic in seconds."""
        now = self._now()
        return {topic: max(0.0, now - moment) for topic, moment in self._complete.items()}


def _was_read_to_end(sources: Iterable[Mapping[str, Any]], topic: str) -> bool:
    """Return True if a batch read all records that the topic had at its start. False if the source
    does not report this.
    """
    for source in sources:
        end, latest = (offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        if topic in latest:
            read = end.get(topic, {})
            return all(read.get(number, 0) >= at for number, at in latest[topic].items())
    return False


def offsets(report: Any) -> Mapping[str, Mapping[str, int]]:
    """Parse offsets by topic and partition, as Kafka's source reports them; empty for any other
    source.
    """
    try:
        found = json.loads(report) if isinstance(report, str) else report
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {topic: each for topic, each in found.items() if isinstance(each, dict)}


class _Lags(Collector):
    def __init__(self, lag: Lag) -> None:
        self._lag = lag

    def collect(self) -> Iterable[Metric]:
        name, labels, text = METRIC
        family = GaugeMetricFamily(f"skybridge_{name}", text, labels=labels)
        for topic, seconds in self._lag.seconds().items():
            family.add_metric((topic,), seconds)
        yield family


@contextmanager
def exporting(lag: Lag, address: str | None) -> Iterator[None]:
    """Serve the lag for Prometheus at ``host:port`` inside the context, on a thread of its own;
    None serves nothing.

    Raises:
        SetupError: The address cannot be used.
    """
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

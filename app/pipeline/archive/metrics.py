"""The metrics of a running archive, which Prometheus reads at ``pipeline.archive.metrics``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.metrics import disable_created_metrics

from app.errors import SetupError
from app.pipeline.archive.copying import CopyRange
from app.pipeline.archive.derive import Derived
from app.pipeline.archive.lag import Lag
from app.pipeline.archive.lease import LakeHold
from app.pipeline.archive.table_state import TableState

METRICS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "archive_batch_seconds": (
        ("step",),
        "Seconds of a batch. The step copy writes events_raw, derive writes the other tables, and merge merges small files.",
    ),
    "archive_merged_files_total": (
        ("table",), "Small files that the archive has merged into larger ones.",
    ),
    "archive_conflicts_total": (
        ("table",),
        "Commits of the archive that were repeated or given up, because another program had committed to the table.",
    ),
    "archive_duplicates_total": (
        (), "Events that were not added, because the lake had them.",
    ),
    "archive_failures_total": (
        ("step",), "Steps that failed and are tried again: copy, derive or merge.",
    ),
    "archive_file_bytes": (("table",), "Bytes of the data files of the table."),
    "archive_files": (("table",), "Data files of the table."),
    "archive_lag_records": (
        ("topic",),
        "Records that the topic had when the last batch began, and that are not in the lake yet.",
    ),
    "archive_lag_seconds": (
        ("topic",),
        "Age in seconds of the oldest record of the topic that may not be in the lake yet.",
    ),
    "archive_lease_held": (
        (), "1 if the archive holds the lock of the lake, 0 if it has lost it.",
    ),
    "archive_lease_seconds": (
        (),
        "Seconds after which another process may take the lease, if it is not renewed. Without a lease, infinite.",
    ),
    "archive_lease_takeovers_total": (
        (), "1 if the archive took the lease from a process that no longer renewed it.",
    ),
    "archive_quarantined_total": (
        ("rule",), "Records that were added to quarantine, by the rule that they broke.",
    ),
    "archive_rows_total": (("table",), "Rows that were added to the table."),
    "archive_snapshots": (("table",), "Snapshots of the table that have not expired."),
}  # fmt: skip
"""The labels and the help text of each metric. Names begin with ``skybridge_``."""

disable_created_metrics()  # type: ignore[no-untyped-call] # a further series for each counter, which no rule needs
BUCKETS: Final = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 300.0, 1800.0)
"""The bounds of the histogram, in seconds."""


class ArchiveMetrics:
    """The metrics of one archive.

    Attributes:
        registry: The metrics as Prometheus's client library serves them.
        lag: The lag of each topic.
    """

    def __init__(
        self,
        topics: Sequence[str],
        now: Callable[[], float] = time.time,  # noqa: TID251 - compared with times of records
    ) -> None:
        """Start with these topics. ``now`` returns seconds since the epoch."""
        self.registry, self.lag = CollectorRegistry(), Lag(topics, now)
        self._rows, self._quarantined = self._counter("rows"), self._counter("quarantined")
        self._duplicates, self._failures = self._counter("duplicates"), self._counter("failures")
        self._conflicts = self._counter("conflicts")
        self._merged = self._counter("merged_files")
        self._files, self._octets = self._gauge("files"), self._gauge("file_bytes")
        self._snapshots = self._gauge("snapshots")
        labels, text = METRICS["archive_batch_seconds"]
        self._seconds = Histogram(
            "skybridge_archive_batch_seconds",
            text,
            labels,
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._lag_seconds, self._lag_records = (
            self._gauge("lag_seconds"),
            self._gauge("lag_records"),
        )
        for topic in topics:
            self._lag_seconds.labels(topic).set_function(partial(self._seconds_behind, topic))
            self._lag_records.labels(topic).set_function(partial(self._records_behind, topic))
        for step in ("copy", "derive", "merge"):
            self._failures.labels(step)  # 0 from the start, so that Prometheus sees the first one

    def holds(self, lock: LakeHold) -> None:
        """Report a lock that the archive holds."""
        self._gauge("lease_held").set_function(lambda: float(lock.seconds_left() > 0))
        self._gauge("lease_seconds").set_function(lock.seconds_left)
        self._counter("lease_takeovers").inc(lock.taken_over)

    def copied(self, batch: CopyRange, seconds: float) -> None:
        """Record a batch whose records are in ``events_raw``, and the time that it took."""
        self.lag.seen(batch)
        self._seconds.labels("copy").observe(seconds)

    def derived(self, found: Derived) -> None:
        """Record the counts of derived records."""
        self._duplicates.inc(found.duplicates)
        for rule, count in found.rules.items():
            self._quarantined.labels(rule).inc(count)

    @contextmanager
    def timing(self, step: str) -> Iterator[None]:
        """Measure the time of a step that succeeds."""
        begun = time.perf_counter()
        yield
        self._seconds.labels(step).observe(time.perf_counter() - begun)

    def failed(self, step: str) -> None:
        """Record a step that failed and will be tried again."""
        self._failures.labels(step).inc()

    def conflicted(self, table: str, count: int) -> None:
        """Record commits to a table that were repeated or given up."""
        self._conflicts.labels(table).inc(count)

    def merged(self, table: str, count: int) -> None:
        """Record files of a table that were merged."""
        self._merged.labels(table).inc(count)

    def looked(self, table: str, state: TableState) -> None:
        """Record the state of a table."""
        self._rows.labels(table).inc(state.added)
        self._files.labels(table).set(state.files)
        self._octets.labels(table).set(state.octets)
        self._snapshots.labels(table).set(state.snapshots)

    def _seconds_behind(self, topic: str) -> float:
        return self.lag.seconds()[topic]

    def _records_behind(self, topic: str) -> float:
        return self.lag.records().get(topic, 0)

    def _counter(self, name: str) -> Counter:
        labels, text = METRICS[f"archive_{name}_total"]
        return Counter(f"skybridge_archive_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        labels, text = METRICS[f"archive_{name}"]
        return Gauge(f"skybridge_archive_{name}", text, labels, registry=self.registry)


@contextmanager
def exporting(metrics: ArchiveMetrics, address: str | None) -> Iterator[None]:
    """Serve the metrics for Prometheus at ``host:port`` inside the context, on a thread of its own;
    None serves nothing.

    Raises:
        SetupError: The address cannot be used.
    """
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), metrics.registry)
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

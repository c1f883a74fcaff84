"""Counters, logs, traces and long-lived tasks of the service. No caller waits for them.

============= ====================================================================================
counters      integers with labels; ``api.status.metrics`` formats them for Prometheus
histograms    durations in fixed buckets
filter_errors filter expressions that fail
logs          one line for each entry on standard error
crashes       errors that no code handles, as entries of the log
printable     escapes characters in foreign text that forge a log line or control a terminal
sampling      which traces are recorded
otlp          the exporter of spans
traces        spans of events by OpenTelemetry
slices        long computations, divided so that the event loop continues
tasks         long-lived tasks, restarted when they fail
============= ====================================================================================
"""

from app.telemetry.counters import LABEL_BOUND, Counters
from app.telemetry.filter_errors import FilterErrors
from app.telemetry.histograms import Histogram, Timing
from app.telemetry.logs import logs_json, set_up_logging

__all__ = [
    "LABEL_BOUND",
    "Counters",
    "FilterErrors",
    "Histogram",
    "Timing",
    "logs_json",
    "set_up_logging",
]

"""Counters, logs and tasks of the service; no caller waits for them.

============= ====================================================================================
counters      integers with labels, and histograms of seconds; ``api.status.metrics`` makes text of them
filter_errors filter expressions that fail
logs          one line an entry on standard error
printable     text from outside, without what would forge a line or steer a terminal
slices        long computations, with turns of the event loop between
tasks         long-lived tasks, restarted when they fail
============= ====================================================================================
"""

from app.telemetry.counters import LABEL_BOUND, Counters
from app.telemetry.filter_errors import FilterErrors
from app.telemetry.histograms import Histogram, Timing
from app.telemetry.logs import set_up_logging

__all__ = ["LABEL_BOUND", "Counters", "FilterErrors", "Histogram", "Timing", "set_up_logging"]

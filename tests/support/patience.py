"""Timeouts for tests that do not test timeouts. They exceed any stall of a busy machine."""

from __future__ import annotations

from app.brokers.embedded import GroupTimes
from app.brokers.portable import PublishBounds

PATIENT = PublishBounds(publish_timeout=60.0, drain_timeout=60.0)
PATIENT_GROUP = GroupTimes(session_timeout=120.0, rebalance_timeout=60.0)
PATIENT_SERVICE = {"publish": "1m", "store": "1m", "webhook_dns": "1m", "webhook_connect": "1m"}
"""The setting ``timeouts`` of a configuration, with bounds that exceed any stall of a busy machine."""

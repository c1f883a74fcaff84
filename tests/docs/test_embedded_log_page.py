"""docs/embedded-log.md tells what the Kafka listener offers, and its bounds."""

from __future__ import annotations

from pathlib import Path

from app.kafka_listener.batches import MOST_RECORDS
from app.kafka_listener.lengths import MOST
from app.kafka_listener.node import Settings
from app.log.sequences import REMEMBERED
from app.log.settings import EngineSettings
from kafka_apis_page import PAGE, written

TEXT = PAGE.read_text()


def test_the_table_of_apis_is_that_of_the_code():
    """A client's author plans by it. Cure: make docs."""
    assert written(TEXT) == TEXT


def test_the_bounds_of_the_page_are_those_of_the_code():
    """Numbers that are repeated grow old."""
    settings = Settings()
    assert f"| one request | {settings.max_frame >> 20} MiB |" in TEXT
    assert f"| {settings.receiving >> 20} MiB | reading waits |" in TEXT
    assert f"| connections | {settings.connections:,} |" in TEXT
    assert f"| {settings.max_batch >> 20} MiB | `MESSAGE_TOO_LARGE` |" in TEXT
    assert f"| {MOST_RECORDS:,} each | `MESSAGE_TOO_LARGE` |" in TEXT
    assert f"| {settings.receiving >> 20} MiB | a Fetch gets few records" in TEXT
    assert f"| records of one Fetch answer | {settings.max_answer >> 20} MiB |" in TEXT
    assert f"| {MOST:,} |" in TEXT
    assert f"of the listener) | {settings.max_partitions:,} |" in TEXT
    assert f"of the broker) | {EngineSettings(path=Path()).max_partitions:,} |" in TEXT
    assert REMEMBERED == 5
    assert "The last five batches" in TEXT

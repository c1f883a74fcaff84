"""docs/embedded-log.md tells what the Kafka listener offers, and its bounds."""

from __future__ import annotations

from pathlib import Path

from app.access.quota import share_of
from app.kafka_listener.batches import MAX_RECORDS
from app.kafka_listener.guesses import ATTEMPT_QUOTA
from app.kafka_listener.lengths import MAX_ELEMENTS
from app.kafka_listener.node import KafkaListenerSettings
from app.log.groups import positions
from app.log.groups.coordinator import MOST_HELD
from app.log.sequences import REMEMBERED
from app.log.settings import EngineSettings
from kafka_apis_page import PAGE, with_table

TEXT = PAGE.read_text()


def test_the_table_of_apis_is_that_of_the_code():
    """A client's author plans by it. Cure: make docs."""
    assert with_table(TEXT) == TEXT


def test_the_bounds_of_the_page_are_those_of_the_code():
    """Numbers that are repeated grow old."""
    settings = KafkaListenerSettings()
    assert f"| one request | {settings.max_frame >> 20} MiB |" in TEXT
    assert f"| {settings.receiving >> 20} MiB | reading waits |" in TEXT
    assert f"| connections | {settings.connections:,} |" in TEXT
    assert f"| {settings.max_batch >> 20} MiB | `MESSAGE_TOO_LARGE` |" in TEXT
    assert f"| {MAX_RECORDS:,} each | `MESSAGE_TOO_LARGE` |" in TEXT
    assert f"| {settings.receiving >> 20} MiB | a Fetch gets few records" in TEXT
    assert f"| records of one Fetch answer | {settings.max_answer >> 20} MiB |" in TEXT
    assert f"| {MAX_ELEMENTS:,} |" in TEXT
    assert f"of the listener) | {settings.max_partitions:,} |" in TEXT
    assert f"of the broker) | {EngineSettings(path=Path()).max_partitions:,} |" in TEXT
    assert f"| {MOST_HELD >> 20} MiB | `GROUP_MAX_SIZE_REACHED`" in TEXT
    assert f"| {positions.MOST_HELD >> 20} MiB | `OFFSET_METADATA_TOO_LARGE`" in TEXT
    assert f"one a producer and partition | {EngineSettings(path=Path()).max_producers:,} |" in TEXT
    assert f"| a frame of which nothing arrives | {settings.progress_timeout:g} s |" in TEXT
    assert REMEMBERED == 5
    assert "The last five batches" in TEXT


def test_the_shares_of_the_page_are_those_of_the_code():
    """A quarter of each bound."""
    settings, log = KafkaListenerSettings(), EngineSettings(path=Path())
    shares = {
        "unfinished requests; size of expanded batches": f"{settings.share >> 20} MiB each",
        "answers that clients have not taken": f"{settings.share >> 20} MiB",
        "members of groups": f"{share_of(MOST_HELD) >> 20} MiB",
        "positions of groups that the user created": f"{share_of(positions.MOST_HELD) >> 20} MiB",
        "groups that the user created, until they are deleted or forgotten": (
            f"{share_of(positions.MOST_GROUPS):,}"
        ),
        "topics that the user created": f"{share_of(log.max_topics)}",
        "partitions of topics that the user created": f"{share_of(log.max_partitions):,}",
        "states of idempotent producers": f"{share_of(log.max_producers):,}",
        "connections, where all are taken": f"{share_of(settings.connections)}",
        "connections of one address without a login or a request": (
            f"{share_of(settings.connections)}"
        ),
        "wrong passwords of one address (a /64 of IPv6)": (
            f"{ATTEMPT_QUOTA.burst} at once, then {ATTEMPT_QUOTA.rate:g} a second"
        ),
    }
    for what, share in shares.items():
        assert f"| {what} | {share} |" in TEXT

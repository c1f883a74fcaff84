"""Fixtures of the whole test run: real servers, started once and shared by every folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from kafka_install import Missing
from kafka_server import KafkaServer, running


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """Bootstrap servers of a real Kafka that the whole run shares: make topics of your own.

    The one named by ``SKYBRIDGE_TEST_KAFKA``, or the one that ``make servers`` left running, or one
    of our own that goes when the run ends.
    """
    if address := os.environ.get("SKYBRIDGE_TEST_KAFKA") or running():
        yield address
        return
    server = throwaway_kafka()
    try:
        yield server.bootstrap_servers
    finally:
        server.stop()


@pytest.fixture(scope="session")
def _throwaway_kafka() -> Iterator[KafkaServer]:
    server = throwaway_kafka()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def own_kafka(_throwaway_kafka: KafkaServer) -> KafkaServer:
    """A real Kafka to be killed, paused and restarted: up when a test begins, and for it alone."""
    _throwaway_kafka.revive()
    return _throwaway_kafka


def throwaway_kafka() -> KafkaServer:
    """What is missing skips on a laptop and fails where CI=true promises that it is there."""
    server = KafkaServer()
    try:
        server.start()
    except Missing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    return server

"""One service for the folder: every test takes a topic of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import kafka_install
import opinion_install
from kafka_foreign import PATIENCE, keep_classes
from kafka_install import Missing
from kafka_serving import KafkaServing, need
from skipping import skip_or_fail

AT_LENGTH = {"with_go", "with_java"}  # clients that are built, or that are a JVM each
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and AT_LENGTH & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServing]:
    service = KafkaServing(tmp_path_factory.mktemp("clients"))
    service.start()
    yield service
    assert service.stop() == 0


@pytest.fixture
def servers(serving: KafkaServing) -> str:
    return serving.servers


@pytest.fixture
def own_serving(tmp_path) -> Iterator[KafkaServing]:
    """To be killed."""
    service = KafkaServing(tmp_path)
    service.start()
    yield service
    if service.running:
        service.stop()


@pytest.fixture
def topic() -> str:
    """It comes to be when it is asked for: one partition."""
    return f"t-{uuid4().hex[:12]}"


@pytest.fixture
def wide_topic(servers, topic) -> str:
    """Four partitions, made by a client."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 4)])[topic].result(PATIENCE)
    return topic


@pytest.fixture(scope="session")
def with_kcat() -> None:
    need("kcat", "kcat")


@pytest.fixture(scope="session")
def with_java(serving: KafkaServing) -> None:
    """Kafka's own tools."""
    try:
        kafka_install.install()
    except Missing as missing:
        skip_or_fail(str(missing))
    keep_classes(serving.servers)


@pytest.fixture(scope="session")
def with_go() -> None:
    """The client in Go, built."""
    try:
        opinion_install.installed(opinion_install.KAFKA_CLIENT)
    except Missing as missing:
        skip_or_fail(str(missing))

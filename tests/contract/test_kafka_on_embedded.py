"""The Kafka driver keeps the broker contract on the embedded log too: the same cases, by the listener of
a real ``skybridge serve`` instead of a Kafka. Nothing differs but what the driver declares anywhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from broker_contract import BrokerContract
from contract_running import OutageCase
from contract_tools import closing
from kafka_harness import KafkaHarness
from kafka_serving import KafkaServing

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServing]:
    service = KafkaServing(tmp_path_factory.mktemp("listener"))
    service.start()
    yield service
    service.stop()


class TestKafkaOnEmbedded(BrokerContract):
    @pytest.fixture
    async def harness(self, serving: KafkaServing) -> AsyncIterator[KafkaHarness]:
        async with closing(KafkaHarness(serving.servers)) as harness:
            yield harness


@pytest.mark.fault
class TestKafkaOnEmbeddedThatGoesAway(OutageCase):
    """The one case that needs a service to itself."""

    @pytest.fixture
    async def harness(self, tmp_path) -> AsyncIterator[KafkaHarness]:
        service = KafkaServing(tmp_path)
        service.start()
        async with closing(KafkaHarness(service.servers, service)) as harness:
            yield harness
        service.stop()

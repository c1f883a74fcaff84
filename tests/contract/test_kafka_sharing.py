"""Subscriptions that share the membership of one Kafka group keep the broker contract too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker_contract import BrokerContract
from contract_tools import closing
from kafka_sharing import SharingKafkaHarness


@pytest.mark.kafka
class TestKafkaSharing(BrokerContract):
    test_a_group_can_read_several_topics = None  # ``sharing: topic`` needs one topic

    @pytest.fixture
    async def harness(self, kafka: str) -> AsyncIterator[SharingKafkaHarness]:
        async with closing(SharingKafkaHarness(kafka)) as harness:
            yield harness

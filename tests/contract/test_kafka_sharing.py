"""Subscriptions that share the membership of one Kafka group keep the part of the broker contract that is about groups and
positions. Publishing is that of ``test_kafka.py``."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from contract_groups import GroupCases
from contract_positions import PlaceCases
from contract_tools import closing
from kafka_sharing import SharingKafkaHarness


@pytest.fixture
async def harness(kafka: str) -> AsyncIterator[SharingKafkaHarness]:
    async with closing(SharingKafkaHarness(kafka)) as harness:
        yield harness


@pytest.mark.kafka
class TestKafkaSharing(GroupCases):
    test_a_group_can_read_several_topics = None  # ``sharing: topic`` needs one topic


@pytest.mark.kafka
@pytest.mark.nightly
class TestKafkaSharingPlaces(PlaceCases):
    """Positions, which ``sharing`` hardly concerns."""

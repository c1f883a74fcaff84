"""Pulsar keeps the broker contract: the real server, the same cases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pulsar as pulsar_client
import pytest

from app.bindings.record import Record
from app.brokers.portable import PortableLog
from app.errors import BrokerRefused
from app.model.message import Message
from app.model.start import EARLIEST, LATEST
from broker_contract import BrokerContract
from contract_positions import PlaceCases
from contract_running import OutageCase, RunningCases
from contract_tools import PATIENCE, bodies, closing, fresh_group, publish, text, until_healthy
from contract_topics import ForeignTopicCases
from pulsar_harness import PulsarHarness
from pulsar_readback import plain_client
from pulsar_server import PulsarServer


@pytest.fixture
async def harness(pulsar: tuple[str, str]) -> AsyncIterator[PulsarHarness]:
    async with closing(PulsarHarness(pulsar)) as harness:
        yield harness


@pytest.mark.pulsar
class TestPulsar(BrokerContract):
    at_night = (PlaceCases, RunningCases)


@pytest.mark.pulsar
@pytest.mark.fault
@pytest.mark.nightly
class TestPulsarThatGoesAway(OutageCase):
    """The one case that needs a server to itself. The short form: tests/faults/test_pulsar_faults.py."""

    @pytest.fixture
    async def harness(self, own_pulsar: PulsarServer) -> AsyncIterator[PulsarHarness]:
        addresses = own_pulsar.service_url, own_pulsar.admin_url
        async with closing(PulsarHarness(addresses, own_pulsar)) as harness:
            yield harness


def admin(addresses: tuple[str, str], method: str, path: str, body: object = None) -> None:
    """The administration, asked without the driver."""
    url = f"{addresses[1]}/admin/v2/{path}"
    httpx.request(method, url, json=body, trust_env=False, timeout=120).raise_for_status()


@pytest.mark.pulsar
class TestPulsarAlone(ForeignTopicCases):
    """What no other log has."""

    async def add_partitions(self, harness: PulsarHarness, topic: str, count: int) -> None:
        path = f"persistent/public/default/{topic}/partitions"
        await asyncio.to_thread(admin, harness.addresses, "POST", path, count)

    async def test_a_topic_that_nothing_would_retain_is_told_by_health(
        self, harness: PulsarHarness
    ) -> None:
        """Pulsar throws away what has neither a subscription nor a retention (rule 10)."""
        namespace = f"public/n-{uuid4().hex[:8]}"
        await asyncio.to_thread(admin, harness.addresses, "PUT", f"namespaces/{namespace}")
        retention = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
        path = f"namespaces/{namespace}/retention"
        await asyncio.to_thread(admin, harness.addresses, "POST", path, retention)
        log = await harness.make_log(namespace=namespace)
        topic = await harness.fresh_topic(log, 1)
        await until_healthy(log)  # nobody publishes to it
        await publish(log, topic, [text("x")])
        async with asyncio.timeout(PATIENCE):
            while f"nothing would retain the messages of {topic}" not in (await log.health()).cause:
                await asyncio.sleep(0.05)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await until_healthy(log)
        await consumer.close()

    async def test_a_topic_that_takes_nothing_any_more_is_refused_by_name_with_a_cure(
        self, harness: PulsarHarness, log: PortableLog
    ) -> None:
        """Terminated, or with a schema that is enforced: no outage that passes, and no fault of the record."""
        ended, typed = [await harness.fresh_topic(log, 1) for _ in range(2)]
        await publish(log, ended, [text("before")])
        place = "persistent/public/default"
        addresses = harness.addresses
        await asyncio.to_thread(admin, addresses, "POST", f"{place}/{ended}/terminate/partitions")
        await asyncio.to_thread(
            admin, addresses, "POST", f"{place}/{typed}/schemaValidationEnforced", True
        )
        fields = [{"name": "a", "type": "string"}]
        schema = {"type": "record", "name": "x", "fields": fields}
        document = {"type": "JSON", "schema": json.dumps(schema), "properties": {}}
        path = f"schemas/public/default/{typed}/schema"
        await asyncio.to_thread(admin, addresses, "POST", path, document)
        fresh = await harness.make_log()  # has no producer yet, unlike the first one
        for using, topic in ((log, ended), (fresh, ended), (log, typed)):
            (result,) = await using.submit(topic, [text("after")])
            assert isinstance(result, BrokerRefused)
            assert not result.of_record
            assert topic in str(result)
            assert "Cure: " in str(result)

    async def test_other_clients_see_key_properties_and_event_time(
        self, harness: PulsarHarness, log: PortableLog
    ) -> None:
        """By the library's own classes: what is on the wire is what Pulsar means by these."""
        topic = await harness.fresh_topic(log, 1)
        record = Record(b"k", (("CE-Id", b"1"),), b"x", time_ms=1_700_000_000_000)
        await publish(log, topic, [record, Record(b"\xff", (), None)])
        place = f"{topic}-partition-0"
        seen = await asyncio.to_thread(receive, harness.addresses[0], place, 2)
        assert [(m.partition_key(), m.properties(), m.data()) for m in seen] == [
            ("k", {"CE-Id": "1"}, b"x"),
            ("/w==", {"x-skybridge-key-encoding": "base64"}, b""),
        ]
        assert seen[0].event_timestamp() == 1_700_000_000_000
        assert [m.has_null_value() for m in seen] == [False, True]

    async def test_a_second_member_does_not_move_a_start_that_is_in_use(
        self, harness: PulsarHarness, log: PortableLog
    ) -> None:
        """Both resolve `latest`, at different times: only the first may decide (rule 10)."""
        topic = await harness.fresh_topic(log, 2)
        group = fresh_group()
        first = await log.subscribe(group, [topic], LATEST)
        await publish(log, topic, [text("between", "k")])
        second = await log.subscribe(group, [topic], LATEST)
        found: list[Message] = []
        async with asyncio.timeout(PATIENCE):
            while not found:
                for consumer in (first, second):
                    event = await consumer.poll(0.1)
                    found += event if isinstance(event, tuple) else ()
        assert bodies(found)[0] == b"between"
        await first.close()
        await second.close()


def receive(service_url: str, topic: str, count: int) -> list[pulsar_client.Message]:
    client = plain_client(service_url)
    reader = client.create_reader(topic, pulsar_client.MessageId.earliest)
    found = [reader.read_next(timeout_millis=10_000) for _ in range(count)]
    client.close()
    return [message._message for message in found]
